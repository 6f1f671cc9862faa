"""Porters: containers that are never started. What lies in their volumes is written from outside, through the engine.

Blocking code, run in the engine's threads.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from functools import partial

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import Mount as EngineMount

from sandboxes.errors import SandboxError
from sandboxes.providers.docker import container, images, layout, waiting
from sandboxes.providers.docker.waiting import until_not_busy


def give_owner(api: APIClient, plans: Sequence[container.Plan]) -> None:
    """Give the volumes of sandboxes of one image to their users: nothing in a sandbox has the right to.

    All of them by one porter, which stays.
    """
    mounts, folders = [], []
    for number, plan in enumerate(plans):
        written = layout.workspace_volume if plan.under is None else layout.layer_volume
        for place, volume in (("workspace", written(plan.sandbox_id)), ("state", layout.state_volume(plan.sandbox_id))):
            mounts.append(EngineMount(f"/{number}/{place}", volume, type="volume", no_copy=True))
        folders += _owned(str(number), plan)
    make(api, plans[0].porter, plans[0].image, mounts)
    api.put_archive(plans[0].porter, "/", layout.folders_archive(folders))


def _owned(below: str, plan: container.Plan) -> list[layout.Owned]:
    user = plan.user
    state = layout.Owned(f"{below}/state", user.uid, user.gid, 0o700)
    if plan.under is None:
        return [state, layout.Owned(f"{below}/workspace", user.uid, user.gid, 0o755)]
    layer = (f"{below}/workspace/{name}" for name in ("upper", "work"))
    return [state, *(layout.Owned(path, user.uid, user.gid, plan.under.mode) for path in layer)]


@contextlib.contextmanager
def porter(api: APIClient, name: str, image: str, mounts: list[EngineMount]) -> Iterator[str]:
    """A porter of this name, for a while."""
    try:
        make(api, name, image, mounts)
        yield name
    finally:
        remove(api, name)


def make(api: APIClient, name: str, image: str, mounts: list[EngineMount]) -> str:
    """Make a porter; its id."""
    host = api.create_host_config(mounts=mounts, network_mode="none")
    made = api.create_container(image, command=["/"], name=name, host_config=host, labels={layout.PORTER_LABEL: name})
    return str(made["Id"])


def remove(api: APIClient, name: str) -> None:
    """Remove a porter by its name or id, also one that was left by who was killed."""
    remove_container(api, name, owner=None)


def has_toolbox(api: APIClient) -> bool:
    """Whether the toolbox volume is still there: somebody may have pruned it."""
    try:
        api.inspect_volume(layout.toolbox_volume())
    except NotFound:
        return False
    return True


def ensure_toolbox(api: APIClient, image: str) -> None:
    """Fill the engine's toolbox volume, unless that was done. The porter's name is the lock between processes."""
    volume = layout.toolbox_volume()
    api.create_volume(volume, labels={layout.TOOLBOX_LABEL: "true"})
    alone = make_alone(api, f"{volume}-porter", image, [EngineMount("/toolbox", volume, type="volume", no_copy=True)])
    try:
        if images.kind(api, alone, f"/toolbox/{layout.TOOLBOX_MARK}") == "missing":
            api.put_archive(alone, "/toolbox", layout.toolbox_archive())
    finally:
        remove(api, alone)


def make_alone(api: APIClient, name: str, image: str, mounts: list[EngineMount]) -> str:
    """A porter, when nobody else has one of this name; its id. One that stays for too long was left by an owner who died.

    Porters are told apart by their ids: of several that wait for the same one, none removes what another has made since.
    """
    seen, end = "", 0.0
    while True:
        try:
            return make(api, name, image, mounts)
        except APIError as exc:
            if exc.status_code != 409:
                raise
        with contextlib.suppress(NotFound):
            holder = str(api.inspect_container(name)["Id"])
            if holder != seen:
                seen, end = holder, time.monotonic() + waiting.BUSY_SECONDS
            elif time.monotonic() > end:
                remove(api, holder)
        time.sleep(waiting.STEP)


def remove_container(api: APIClient, name: str, owner: str | None) -> None:
    """Remove a container; with `owner`, only if it carries this sandbox's label."""
    with contextlib.suppress(NotFound):
        if owner is not None and api.inspect_container(name)["Config"]["Labels"].get(layout.SANDBOX_LABEL) != owner:
            raise SandboxError(f"the container {name} was not made by Fanfold: it is left alone")
    until_not_busy(partial(api.remove_container, name, force=True, v=True))
