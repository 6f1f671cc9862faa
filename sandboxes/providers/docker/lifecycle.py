"""Making and removing the containers and volumes of a sandbox: blocking code, run in the engine's threads."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from docker import APIClient
from docker.errors import APIError, NotFound
from docker.types import Mount as EngineMount

from sandboxes.errors import InvalidSpec, SandboxError, SandboxGone, SandboxNotFound
from sandboxes.providers.base import SandboxSpec, is_sandbox_id
from sandboxes.providers.docker import container, images, layers, layout, users, waiting
from sandboxes.providers.docker.stream import attach_output
from sandboxes.providers.docker.waiting import until_not_busy

BOOT_SECONDS: Final = 60.0
"""How long a sandbox may take from its start to its first line."""
END_SECONDS: Final = 10.0
"""How long the engine may take to notice that a sandbox has ended."""
_LINE_CAP = 4096
_HEADER = 8


def prepare(api: APIClient, spec: SandboxSpec, plan: container.Plan, of_image: str) -> container.Plan:
    """Look up in the image what the spec leaves open: the user's numbers, and what lies under the mounts."""
    asked = users.wanted(spec.user, of_image, spec.system == "overlay")
    bare = [mount for mount in spec.mounts if mount.source is None]
    if isinstance(asked, users.User) and not bare:
        return replace(plan, user=asked)
    with images.opened(api, plan.image) as reader:
        if not isinstance(asked, users.User):
            passwd, groups = (images.read_text(api, reader, f"/etc/{name}") for name in ("passwd", "group"))
            asked = users.look_up(asked, passwd, groups)
        kinds = {mount.target: images.kind(api, reader, mount.target) for mount in bare}
    missing = [mount.target for mount in bare if mount.mode == "read-only" and kinds[mount.target] == "missing"]
    if missing:
        raise InvalidSpec(f"mounts: the image has no {', '.join(missing)} to be made read-only; give a source")
    hidden = frozenset(target for target, kind in kinds.items() if kind == "file")
    nothing = f"{api.inspect_volume(layout.toolbox_volume())['Mountpoint']}/{layout.NOTHING}"
    return replace(plan, user=asked, hidden_files=hidden, nothing=nothing)


def create(api: APIClient, spec: SandboxSpec, plan: container.Plan) -> str:
    """Make and start a sandbox; returns the transport that it needs. When this raises, nothing is left."""
    try:
        if plan.under is not None:
            layers.make(api, plan, plan.under, container.labels(plan, spec))
        line = _started(api, spec, plan)
        if line not in ("helper", "sh"):
            raise SandboxError(f"the sandbox did not start: {_why_not_started(api, plan.sandbox_id, plan.image, line)}")
        return line
    except BaseException:
        remove(api, plan.sandbox_id)
        raise


def _started(api: APIClient, spec: SandboxSpec, plan: container.Plan) -> str | None:
    """Make and start the container; its first line. The folders get their owner meanwhile, by a porter.

    The boot script waits for the owner, so that the container may start before; an overlay needs its folders before that.
    """
    stands = plan.under is not None
    with ThreadPoolExecutor(1) as aside, contextlib.ExitStack() as opened:
        asked = [aside.submit(_own_volumes, api, plan)] if stands else []
        made: str = api.create_container(**container.configuration(spec, plan, api.api_version))["Id"]
        output = opened.enter_context(contextlib.closing(attach_output(api, made)))
        if not stands and not container.in_memory(spec):  # now that the container has made its volumes
            asked = [aside.submit(_own_volumes, api, plan)]
        if stands:
            asked[0].result()
        if asked:
            asked.append(aside.submit(remove_porter, api, layout.porter_name(plan.sandbox_id)))
        api.start(made)
        for one in asked:
            one.result()
        return _first_line(output)


def _own_volumes(api: APIClient, plan: container.Plan) -> None:
    """Give the volumes to the sandbox's user, from outside: nothing in the sandbox has the right to."""
    written = layout.workspace_volume if plan.under is None else layout.layer_volume
    mounts = [
        EngineMount("/workspace", written(plan.sandbox_id), type="volume", no_copy=True),
        EngineMount("/state", layout.state_volume(plan.sandbox_id), type="volume", no_copy=True),
    ]
    user = plan.user
    folders = [layout.Owned("state", user.uid, user.gid, 0o700)]
    if plan.under is None:
        folders.append(layout.Owned("workspace", user.uid, user.gid, 0o755))
    else:
        folders += [layout.Owned(f"workspace/{name}", user.uid, user.gid, plan.under.mode) for name in ("upper", "work")]
    name = layout.porter_name(plan.sandbox_id)
    _make_porter(api, name, plan.image, mounts)
    api.put_archive(name, "/", layout.folders_archive(folders))


@contextlib.contextmanager
def porter(api: APIClient, name: str, image: str, mounts: list[EngineMount]) -> Iterator[str]:
    """A container of this name that is never started, for a while: its mounts can be written through the engine."""
    try:
        _make_porter(api, name, image, mounts)
        yield name
    finally:
        remove_porter(api, name)


def remove_porter(api: APIClient, name: str) -> None:
    """Remove what `porter` made, or left when it was killed."""
    _remove_container(api, name, owner=None)


def _make_porter(api: APIClient, name: str, image: str, mounts: list[EngineMount]) -> str:
    """A container that is never started: its mounts can be written through the engine, and nothing runs. Its id."""
    host = api.create_host_config(mounts=mounts, network_mode="none")
    made = api.create_container(image, command=["/"], name=name, host_config=host, labels={layout.PORTER_LABEL: name})
    return str(made["Id"])


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
    porter = _porter_alone(api, f"{volume}-porter", image, [EngineMount("/toolbox", volume, type="volume")])
    try:
        if images.kind(api, porter, f"/toolbox/{layout.TOOLBOX_MARK}") == "missing":
            api.put_archive(porter, "/toolbox", layout.toolbox_archive())
    finally:
        _remove_container(api, porter, owner=None)


def _porter_alone(api: APIClient, name: str, image: str, mounts: list[EngineMount]) -> str:
    """A porter, when nobody else has one of this name; its id. One that stays for too long was left by an owner who died.

    Porters are told apart by their ids: of several that wait for the same one, none removes what another has made since.
    """
    seen, end = "", 0.0
    while True:
        try:
            return _make_porter(api, name, image, mounts)
        except APIError as exc:
            if exc.status_code != 409:
                raise
        with contextlib.suppress(NotFound):
            holder = str(api.inspect_container(name)["Id"])
            if holder != seen:
                seen, end = holder, time.monotonic() + waiting.BUSY_SECONDS
            elif time.monotonic() > end:
                _remove_container(api, holder, owner=None)
        time.sleep(waiting.STEP)


def _first_line(output: socket.socket) -> str | None:
    """The first line that the sandbox prints; what there is of it when it ends before; None when it is late."""
    end = time.monotonic() + BOOT_SECONDS
    line = b""
    try:
        while b"\n" not in line and len(line) < _LINE_CAP:
            output.settimeout(max(0.01, end - time.monotonic()))
            header = _exactly(output, _HEADER)
            if not header:
                break
            line += _exactly(output, min(int.from_bytes(header[4:], "big"), _LINE_CAP))
    except TimeoutError:
        return None
    return line.partition(b"\n")[0].decode("utf-8", "replace")


def _exactly(output: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = output.recv(size - len(data))
        if not piece:
            return b""
        data += piece
    return data


def _why_not_started(api: APIClient, made: str, image: str, line: str | None) -> str:
    """Why: `line` is what it said before its output ended, which may be a moment before it does; None when it was late."""
    end = time.monotonic() + (0 if line is None else END_SECONDS)
    state = api.inspect_container(made)["State"]
    while state.get("Running") and time.monotonic() < end:
        time.sleep(waiting.STEP)
        state = api.inspect_container(made)["State"]
    if state.get("Running"):
        return f"it said nothing within {BOOT_SECONDS:g} s"
    if state.get("ExitCode") in (126, 127) and "/bin/sh" in (line or "/bin/sh"):
        return f"the image {image!r} has no usable /bin/sh, which every sandbox needs ({line or state.get('Error')})"
    return f"its first process ended with exit code {state.get('ExitCode')}: {line or state.get('Error') or 'it said nothing'}"


def remove(api: APIClient, sandbox_id: str) -> None:
    """Remove a sandbox's containers and volumes. What is gone is gone; what is not a sandbox of ours stays."""
    if not is_sandbox_id(sandbox_id):
        return
    image = images.of_fork(api, sandbox_id)
    remove_porter(api, layout.porter_name(sandbox_id))
    _remove_container(api, sandbox_id, owner=sandbox_id)
    layers.release(api, sandbox_id)
    images.forget_forks(api, sandbox_id, image)


def find(api: APIClient, wanted: list[str]) -> list[dict[str, str]]:
    """Labels of the sandboxes that carry these labels, and of those of which only volumes are left."""
    left = layers.left(api, layout.SANDBOX_LABEL, wanted)  # first: what is made meanwhile has its container by then
    found = [item["Labels"] for item in api.containers(all=True, filters={"label": wanted})]
    running = {marks[layout.SANDBOX_LABEL]: marks for marks in found if layout.PORTER_LABEL not in marks}
    return list({**left, **running}.values())


def is_paused(api: APIClient, sandbox_id: str) -> bool:
    """Whether a sandbox is paused. Raises `SandboxNotFound`."""
    try:
        return bool(api.inspect_container(sandbox_id)["State"].get("Paused"))
    except NotFound as exc:
        raise SandboxNotFound(f"there is no Docker sandbox {sandbox_id}") from exc


def set_paused(api: APIClient, sandbox_id: str, paused: bool) -> None:
    """Pause a sandbox, or let it go on, unless it is as asked. Raises `SandboxNotFound`, `SandboxGone` or `SandboxError`."""
    try:
        state = api.inspect_container(sandbox_id)["State"]
    except NotFound as exc:
        raise SandboxNotFound(f"there is no Docker sandbox {sandbox_id}") from exc
    if not state.get("Running"):
        raise SandboxGone(f"sandbox {sandbox_id} has ended")
    if not paused:
        layers.raise_if_stood_on(api, sandbox_id)
    if bool(state.get("Paused")) == paused:
        return
    (api.pause if paused else api.unpause)(sandbox_id)
    if not paused and layers.standing_on(api, sandbox_id):
        api.pause(sandbox_id)  # somebody has forked it in between
        layers.raise_if_stood_on(api, sandbox_id)


def _remove_container(api: APIClient, name: str, owner: str | None) -> None:
    """Remove a container; with `owner`, only if it carries this sandbox's label."""
    with contextlib.suppress(NotFound):
        if owner is not None and api.inspect_container(name)["Config"]["Labels"].get(layout.SANDBOX_LABEL) != owner:
            raise SandboxError(f"the container {name} was not made by Fanfold: it is left alone")
    until_not_busy(partial(api.remove_container, name, force=True, v=True))
