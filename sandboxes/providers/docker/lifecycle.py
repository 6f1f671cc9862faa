"""Making and removing the containers and volumes of a sandbox: blocking code, run in the engine's threads."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from docker import APIClient
from docker.errors import NotFound

from sandboxes.errors import InvalidSpec, SandboxError, SandboxGone, SandboxNotFound
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import container, images, layers, layout, porters, users, waiting
from sandboxes.providers.docker.stream import FirstLines, attach_stdio
from sandboxes.providers.ids import is_sandbox_id

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


def make(api: APIClient, spec: SandboxSpec, plan: container.Plan) -> str:
    """Make the container of a sandbox, and those of its volumes that are not there yet. Its id."""
    return str(api.create_container(**container.configuration(spec, plan, api.api_version))["Id"])


def start(api: APIClient, spec: SandboxSpec, plan: container.Plan, made: str, lines: FirstLines) -> str:
    """Start a container; the transport that its sandbox needs. The line to a helper is kept for who attaches first.

    The boot script waits for the owner of its folders, so that they may get it meanwhile. What stands on others has it already:
    an overlay needs that before.
    """
    by_porter = plan.under is None and not container.in_memory(spec)
    with ThreadPoolExecutor(1) as aside, attach_stdio(api, made) as stdio:
        asked = []
        if by_porter:
            asked.append(aside.submit(porters.give_owner, api, [plan]))
            asked.append(aside.submit(porters.remove, api, plan.porter))
        api.start(made)
        for one in asked:
            one.result()
        line = _first_line(stdio)
        if line == "helper":
            lines.keep(plan.sandbox_id, stdio.dup())
    if line not in ("helper", "sh"):
        raise SandboxError(f"the sandbox did not start: {_why_not_started(api, plan.sandbox_id, plan.image, line)}")
    return line


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
    porters.remove(api, layers.porter(api, sandbox_id))
    porters.remove_container(api, sandbox_id, owner=sandbox_id)
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
