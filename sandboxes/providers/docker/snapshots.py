"""Snapshots of Docker sandboxes: volumes with a copy of the working directory. Blocking code, run in the engine's threads."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping

from docker import APIClient
from docker.errors import NotFound
from docker.types import Mount as EngineMount

from sandboxes.errors import SandboxNotFound
from sandboxes.providers.base import SnapshotHandle
from sandboxes.providers.docker import layers, layout, porters
from sandboxes.providers.docker.waiting import until_not_busy


def keep(api: APIClient, sandbox_id: str, made: SnapshotHandle) -> None:
    """Copy the working directory of a paused sandbox; the engine packs and unpacks it, and this process holds a piece of it.

    The record comes last: until then `create` does not know the snapshot, while `find_snapshots` shows it.
    """
    workdir = str(made.data["workdir"])
    try:
        image = api.inspect_container(sandbox_id)["Image"]
        pieces, status = api.get_archive(sandbox_id, workdir)
    except NotFound as exc:
        raise SandboxNotFound(f"there is no Docker sandbox {sandbox_id}") from exc
    labels = {**_labels(made), layout.MODE_LABEL: f"{status['mode'] & 0o777:o}"}
    layer = layout.layer_volume(made.id)
    api.create_volume(layer, labels=labels)
    place = EngineMount("/" + posixpath.basename(workdir), layer, type="volume", no_copy=True)
    with porters.porter(api, layout.porter_name(made.id), image, [place]) as porter:
        api.put_archive(porter, "/", pieces)
    api.create_volume(made.id, labels=labels)


def _labels(made: SnapshotHandle) -> dict[str, str]:
    return {
        layout.SNAPSHOT_LABEL: made.id,
        layout.CREATED_LABEL: made.created_at,
        layout.TOLD_LABEL: json.dumps(dict(made.data)),
        layout.LABELS_LABEL: json.dumps(dict(made.labels)),
        **{layout.USER_LABEL_PREFIX + key: value for key, value in made.labels.items()},
    }


def delete(api: APIClient, snapshot_id: str) -> None:
    """Remove a snapshot; its layer only when nobody stands on it."""
    porters.remove(api, layout.porter_name(snapshot_id))
    until_not_busy(lambda: api.remove_volume(snapshot_id))
    layers.release(api, snapshot_id)


def find(api: APIClient, labels: Mapping[str, str]) -> list[SnapshotHandle]:
    """Snapshots with all these labels."""
    wanted = [f"{layout.USER_LABEL_PREFIX}{key}={value}" for key, value in labels.items()]
    return [_handle(one, told) for one, told in layers.left(api, layout.SNAPSHOT_LABEL, wanted).items()]


def _handle(snapshot_id: str, told: Mapping[str, str]) -> SnapshotHandle:
    labels, data = (json.loads(told[key]) for key in (layout.LABELS_LABEL, layout.TOLD_LABEL))
    return SnapshotHandle(layout.PROVIDER, snapshot_id, labels, told[layout.CREATED_LABEL], "", data)
