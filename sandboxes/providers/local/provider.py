"""The local provider: each sandbox is a folder, a bubblewrap, and a helper that listens on a socket it inherited.

The socket's name lies on this machine, outside of what the sandbox sees: it can neither replace it nor point it elsewhere.
Nothing but that folder and the processes belong to a sandbox, so that any process of the same user can adopt it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from sandboxes.errors import ProviderUnavailable, SandboxError, SandboxGone, SandboxNotFound
from sandboxes.providers.base import (
    Capabilities,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    is_sandbox_id,
    lifetime_stamps,
    new_sandbox_id,
    told_mounts,
)
from sandboxes.providers.local import cgroups, jail, launch, system
from sandboxes.providers.local.processes import Process
from sandboxes.providers.local.removal import remove_tree
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox import client
from sandboxes.toolbox.attached import ToolboxSandbox

ATTACH_SECONDS = 10.0
SANDBOX_UID = 298_417
"""Whom sandboxes run as on this machine when root starts them: nobody else's uid."""
ROOTS_PLACE = Path("/var/lib/fanfold")
"""Where the sandboxes of root are, each installation's in a folder of its own."""
_SOCKET = "toolbox.sock"


class LocalProvider(SandboxProvider):
    """Sandboxes below `home`, a folder of this user's; those of root are below `ROOTS_PLACE`."""

    name = "local"

    def __init__(self, home: Path) -> None:
        if os.geteuid() == 0:
            # Root's sandboxes run as somebody else, who must be able to pass through to their folders.
            self._owner: int | None = SANDBOX_UID
            self._sandboxes = ROOTS_PLACE / hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:12]
            self._shared = ROOTS_PLACE / "shared"
        else:
            self._owner = None
            self._sandboxes = home.absolute() / "sandboxes"
            self._shared = self._sandboxes / ".shared"

    async def capabilities(self) -> Capabilities:
        """See `SandboxProvider`."""
        for folder in (self._shared, self._sandboxes):
            folder.mkdir(mode=0o700 if self._owner is None else 0o711, parents=True, exist_ok=True)
        failure = await asyncio.to_thread(launch.probe, str(self._shared), self._bwrap(), self._owner)
        if failure:
            raise ProviderUnavailable(
                f"bubblewrap cannot make a sandbox here: {failure}. It needs unprivileged user namespaces and overlay mounts "
                "in them (Linux 5.11 or later; sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces > 0, "
                "kernel.apparmor_restrict_unprivileged_userns=0 where these exist)"
            )
        whole = cgroups.usable()
        note = "Without writable control groups (run as root, or delegate them) a memory limit holds for each process alone."
        return Capabilities(
            networks=frozenset({"none", "public"}),
            rootfs=True,
            writable_system=True,
            user=True,
            cpu=whole,
            memory="sandbox" if whole else "process",
            pids=True,
            disk=True,
            mounts=True,
            idle_timeout=True,
            pause=True,
            notes=() if whole else (note,),
        )

    async def create(self, spec: SandboxSpec, labels: Mapping[str, str] | None = None) -> SandboxHandle:
        """See `SandboxProvider`."""
        await self.check(spec)
        created, expires = lifetime_stamps(spec)
        data = {"workdir": spec.workdir, "mounts": told_mounts(spec)}
        handle = SandboxHandle(self.name, new_sandbox_id(), dict(labels or {}), created, expires, data)
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, spec, handle))
        try:
            await asyncio.shield(starting)
            await (await self._connect(handle, launch.START_SECONDS)).aclose()
        except BaseException as exc:
            await asyncio.wait([starting])  # a thread cannot be cancelled: what it still starts has to be destroyed too
            said = self._log(handle.id)
            await self.destroy(handle)
            if isinstance(exc, (SandboxError, OSError)):
                raise SandboxError(f"the sandbox did not start: {said or exc}") from exc
            raise
        return handle

    def _folder(self, sandbox_id: str) -> Path:
        """The one way from an id to a path: a forged id would name any folder at all."""
        if not is_sandbox_id(sandbox_id):
            raise SandboxNotFound(f"{sandbox_id!r:.80} is not the id of a local sandbox")
        return self._sandboxes / sandbox_id

    def _start(self, spec: SandboxSpec, handle: SandboxHandle) -> None:
        layout = jail.Layout(self._folder(handle.id))
        layout.folder.mkdir(parents=True)
        (layout / "handle.json").write_text(json.dumps(handle.to_json()))  # first: `find` knows a half-made sandbox by it
        layout.make(self._owner)
        uid, gid = jail.numeric_user(spec)
        jail.write_etc(layout, uid, gid)
        skeleton = system.skeleton(self._shared, self._owner) if spec.system == "overlay" and not spec.rootfs else None
        arguments = jail.arguments(spec, layout, system.toolbox(self._shared), skeleton)
        if cgroups.usable():
            cgroups.create(handle.id, spec.resources)
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            with self._address(handle.id) as address:
                listener.bind(address)
            listener.listen(64)
            helper = launch.helper_command(spec, listener.fileno())
            launch.launch(layout, arguments, helper, listener, self._bwrap(), self._owner, handle.id)

    def _bwrap(self) -> Path:
        return system.bwrap_folder(None if self._owner is None else self._shared)

    @contextlib.contextmanager
    def _address(self, sandbox_id: str) -> Iterator[str]:
        """The socket's address, short enough for the kernel however deep the folder lies."""
        folder = os.open(self._folder(sandbox_id), os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{_SOCKET}"
        finally:
            os.close(folder)

    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """See `SandboxProvider`."""
        self._living(handle)
        connected = await self._connect(handle, ATTACH_SECONDS)
        sandbox = ToolboxSandbox(connected, sandbox_id=handle.id, workdir=str(handle.data["workdir"]))
        sandbox.mounts = handle.mounts
        return sandbox

    async def _connect(self, handle: SandboxHandle, deadline: float) -> client.ToolboxClient:
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        try:
            with self._address(handle.id) as address:
                await asyncio.get_running_loop().sock_connect(sock, address)
        except OSError as exc:
            sock.close()
            raise SandboxGone(f"local sandbox {handle.id} does not listen any more: {exc.strerror}") from exc
        return await client.connect(sock, deadline=deadline)

    def _process(self, sandbox_id: str) -> Process | None:
        try:
            return Process(**json.loads((self._folder(sandbox_id) / "process.json").read_text()))
        except (OSError, ValueError):
            return None

    def _why(self, handle: SandboxHandle) -> str:
        if datetime.now(UTC) >= datetime.fromisoformat(handle.expires_at):
            return "its lifetime is over"
        return self._log(handle.id) or "it was idle for too long, or was killed"

    def _log(self, sandbox_id: str) -> str:
        try:
            return (self._folder(sandbox_id) / "log").read_text(errors="replace").strip()[-500:]
        except OSError:
            return ""

    async def pause(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        if not await asyncio.to_thread(self._living(handle).stop):
            raise SandboxError(f"the processes of local sandbox {handle.id} do not stand still")

    async def resume(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await asyncio.to_thread(self._living(handle).go_on)

    def _living(self, handle: SandboxHandle) -> Process:
        """The first process of a sandbox. Raises `SandboxNotFound` or `SandboxGone`."""
        if not (self._folder(handle.id) / "handle.json").exists():
            raise SandboxNotFound(f"there is no local sandbox {handle.id} below {self._sandboxes}")
        process = self._process(handle.id)
        if process is None or not process.alive():
            raise SandboxGone(f"local sandbox {handle.id} has ended: {self._why(handle)}")
        return process

    async def destroy(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await asyncio.to_thread(self._destroy, handle.id)

    def _destroy(self, sandbox_id: str) -> None:
        folder = self._folder(sandbox_id)
        process = self._process(sandbox_id)
        if process is not None and not process.kill():
            raise SandboxError(f"process {process.pid} of local sandbox {sandbox_id} cannot be killed")
        cgroups.remove(sandbox_id)
        if folder.exists():
            remove_tree(folder)
        with contextlib.suppress(OSError):
            self._sandboxes.rmdir()  # only when it is empty

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """See `SandboxProvider`."""
        wanted = (labels or {}).items()
        found = []
        for path in sorted(self._sandboxes.glob("sbx-*/handle.json")):
            with contextlib.suppress(OSError, ValueError):
                handle = SandboxHandle.from_json(json.loads(path.read_text()))
                if wanted <= handle.labels.items():
                    found.append(handle)
        return found
