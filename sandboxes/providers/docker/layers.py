"""Who stands on whose files: volumes of the engine as layers of others. Blocking code, run in the engine's threads.

What a sandbox writes is in its workspace volume, or, when it stands on others, in a layer volume; its workspace volume is then
an overlay, whose label names what it stands on, the lowest first. A snapshot is a layer volume and, once that is full, a record
volume. A layer stays while its owner (a container, a record) is there, or a label names it. Nothing is counted and nothing
locked: who wants to stand on a layer says so first, and then looks whether its owner is still there; who removes an owner does
that first, and then looks whether anybody stands on its layer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from docker import APIClient
from docker.errors import NotFound

from sandboxes.errors import SandboxError, SandboxGone, SandboxNotFound
from sandboxes.providers.docker import container, images, layout
from sandboxes.providers.docker.waiting import until_not_busy
from sandboxes.providers.ids import is_sandbox_id

FOLDERS_CAP: Final = 3000
"""Bytes of the paths that one sandbox stands on; the kernel takes a page for all options of a mount."""
_OVERLAY: Final = Path("/sys/module/overlay/parameters")
_PLAIN: Final = frozenset({"ext3", "ext4", "xfs", "btrfs", "f2fs"})
"""File systems that can hold the layers of an overlay."""


def usable(info: Mapping[str, Any], is_here: bool) -> bool:
    """Whether volumes of this engine can be layers: it is on this machine, for real, and keeps them on a plain file system."""
    place = str(info.get("DockerRootDir") or "")
    apart = any(word in option for option in info.get("SecurityOptions") or () for word in ("rootless", "userns"))
    if not is_here or info.get("OSType") != "linux" or apart or not place.startswith("/") or {":", ","} & set(place):
        return False
    return Path(place).is_dir() and _file_system(place) in _PLAIN


def _file_system(place: str) -> str:
    """The kind of file system that holds a folder of this machine."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        found[before.split()[4]] = after.split()[0]
    holding = [point for point in found if point == "/" or place == point or place.startswith(point + "/")]
    return found[max(holding, key=len)]


def under(api: APIClient, owner: str, workdir: str) -> container.Under | None:
    """What a fork of this sandbox stands on; None when that is too much for a mount. Raises `SandboxNotFound`."""
    try:
        mode = images.mode(api, owner, workdir) & 0o777
        labels = api.inspect_volume(layout.workspace_volume(owner)).get("Labels") or {}
    except NotFound as exc:
        raise SandboxNotFound(f"there is no Docker sandbox {owner}") from exc
    told = labels.get(layout.LAYERS_LABEL)
    own = layout.layer_volume(owner) if told else layout.workspace_volume(owner)
    return _under(api, owner, [*json.loads(told or "[]"), own], mode)


def under_snapshot(api: APIClient, snapshot_id: str) -> container.Under | None:
    """What a sandbox from this snapshot stands on; see `under`."""
    try:
        labels = api.inspect_volume(snapshot_id)["Labels"]
    except NotFound as exc:
        raise SandboxNotFound(f"there is no Docker snapshot {snapshot_id}") from exc
    return _under(api, snapshot_id, [layout.layer_volume(snapshot_id)], int(labels[layout.MODE_LABEL], 8))


def _under(api: APIClient, owner: str, names: list[str], mode: int) -> container.Under | None:
    folders = []
    for name in names:
        place = api.inspect_volume(name)["Mountpoint"]
        own = is_sandbox_id(name.partition("-layer")[0]) and name.endswith("-layer")
        folders.append(f"{place}/upper" if own else place)
    if sum(len(os.fsencode(folder)) + 1 for folder in folders) > FOLDERS_CAP:
        return None
    return container.Under(owner, tuple(names), tuple(folders), mode)


def make(api: APIClient, plan: container.Plan, stands: container.Under, labels: Mapping[str, str]) -> None:
    """Make the volumes of a sandbox that stands on others; they say who of these is below it. See `check_owner`."""
    layer = layout.layer_volume(plan.sandbox_id)
    place = api.create_volume(layer, labels=dict(labels))["Mountpoint"]
    api.create_volume(layout.state_volume(plan.sandbox_id), labels=dict(labels))
    lowers = ":".join(reversed(stands.folders))
    asked = f"lowerdir={lowers},upperdir={place}/upper,workdir={place}/work{_whole_files()}"
    options = {"type": "overlay", "device": "overlay", "o": asked}
    told = {**labels, layout.LAYERS_LABEL: json.dumps(stands.names), layout.PORTER_LABEL: plan.porter}
    api.create_volume(layout.workspace_volume(plan.sandbox_id), driver="local", driver_opts=options, labels=told)


def _whole_files() -> str:
    """Options that keep all that a sandbox changes in its own layer, where the kernel could leave a part of it below."""
    return "".join(f",{name}=off" for name in ("redirect_dir", "metacopy") if (_OVERLAY / name).exists())


def check_owner(api: APIClient, owner: str) -> None:
    """Raise `SandboxGone` unless the owner of the layers that somebody says to stand on is as it has to be."""
    try:
        if not is_sandbox_id(owner):
            api.inspect_volume(owner)
            return
        state = api.inspect_container(owner)["State"]
    except NotFound as exc:
        raise SandboxGone(f"{owner} was destroyed") from exc
    if not state.get("Paused"):
        raise SandboxGone(f"the sandbox {owner} that is forked has ended, or goes on again")


def porter(api: APIClient, owner: str) -> str:
    """Name of the container that gives, or gave, the volumes of a sandbox their owner."""
    try:
        labels = api.inspect_volume(layout.workspace_volume(owner)).get("Labels") or {}
    except NotFound:
        labels = {}
    return str(labels.get(layout.PORTER_LABEL) or layout.porter_name(owner))


def named(api: APIClient, but: str = "") -> dict[str, list[str]]:
    """Names of the layers that somebody stands on, each with the ids of these sandboxes; `but` one volume."""
    found: dict[str, list[str]] = {}
    for volume in _volumes(api, layout.LAYERS_LABEL):
        if volume["Name"] != but:
            for name in json.loads(volume["Labels"][layout.LAYERS_LABEL]):
                found.setdefault(name, []).append(volume["Labels"][layout.SANDBOX_LABEL])
    return found


def _volumes(api: APIClient, *labels: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.volumes(filters={"label": list(labels)})["Volumes"] or []
    return found


def standing_on(api: APIClient, sandbox_id: str) -> list[str]:
    """Ids of the sandboxes that need the files of this one."""
    forks = named(api)
    return sorted({*forks.get(layout.layer_volume(sandbox_id), ()), *forks.get(layout.workspace_volume(sandbox_id), ())})


def raise_if_stood_on(api: APIClient, sandbox_id: str) -> None:
    """Raise `SandboxError` while a sandbox may not go on."""
    if forks := standing_on(api, sandbox_id):
        raise SandboxError(
            f"Docker sandbox {sandbox_id} cannot go on while {len(forks)} others stand on its files: "
            f"destroy {', '.join(forks[:10])} first"
        )


def release(api: APIClient, owner: str) -> None:
    """Remove the volumes of a sandbox or snapshot whose container or record is gone, and every layer that was kept for it."""
    workspace, layer = layout.workspace_volume(owner), layout.layer_volume(owner)
    try:
        told = (api.inspect_volume(workspace).get("Labels") or {}).get(layout.LAYERS_LABEL)
    except NotFound:
        told = None
    until_not_busy(lambda: api.remove_volume(layout.state_volume(owner)))
    others = named(api, but=workspace)
    for volume in (layer, workspace):
        if volume not in others:
            until_not_busy(lambda volume=volume: api.remove_volume(volume))  # type: ignore[misc]
    if orphans := [volume for volume in json.loads(told or "[]") if not _has_owner(api, volume)]:
        others = named(api)
        for volume in orphans:
            if volume not in others:
                until_not_busy(lambda volume=volume: api.remove_volume(volume))  # type: ignore[misc]


def _has_owner(api: APIClient, layer: str) -> bool:
    owner = layer.rpartition("-")[0]
    try:
        if is_sandbox_id(owner):
            api.inspect_container(owner)
        else:
            api.inspect_volume(owner)
    except NotFound:
        return False
    return True


def left(api: APIClient, mark: str, labels: list[str]) -> dict[str, dict[str, str]]:
    """Of each owner (its id under the label `mark`) with volumes that carry these labels: the labels of one of them.

    Owners of which nothing is there but a layer that others stand on are left out: these were destroyed.
    """
    found: dict[str, dict[str, str]] = {}
    kept: dict[str, list[str]] | None = None
    for volume in _volumes(api, mark, *labels):
        owner, name = volume["Labels"][mark], volume["Name"]
        if name in (layout.layer_volume(owner), layout.workspace_volume(owner)) and layout.LAYERS_LABEL not in volume["Labels"]:
            kept = named(api) if kept is None else kept
            if name in kept:
                continue
        found[owner] = volume["Labels"]
    return found
