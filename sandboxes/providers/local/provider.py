"""The local provider: each sandbox is a folder, a bubblewrap, and a helper that listens on a socket it inherited.

The socket's name lies on this machine, outside of what the sandbox sees: it can neither replace it nor point it elsewhere.
Nothing but that folder and the processes belong to a sandbox, so that any process of the same user can adopt it. A fork
stands on what its parent wrote, as a layer: see `layers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sandboxes.errors import ProviderUnavailable, SandboxError, SandboxGone, SandboxNotFound, Unsupported
from sandboxes.providers import copying, standing
from sandboxes.providers.base import (
    Capabilities,
    Forked,
    Labels,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    Scope,
    SnapshotHandle,
    lifetime_stamps,
)
from sandboxes.providers.ids import is_sandbox_id, is_snapshot_id, new_sandbox_id, new_snapshot_id
from sandboxes.providers.local import cgroups, jail, launch, snapshots, system
from sandboxes.providers.local.layers import HUSK, Below, Layers
from sandboxes.providers.local.processes import Process
from sandboxes.sandbox import Sandbox
from sandboxes.toolbox import client
from sandboxes.toolbox.attached import ToolboxSandbox

ATTACH_SECONDS = 10.0
SANDBOX_UID = 298_417
"""Whom sandboxes run as on this machine when root starts them: nobody else's uid."""
ROOTS_PLACE = Path("/var/lib/fanfold")
"""Where the sandboxes of root are, each installation's in a folder of its own."""
LOWERS_CAP = 3000
"""Bytes of the paths of layers that one sandbox stands on; the kernel takes a page for all options of a mount."""
_SOCKET = "toolbox.sock"

_NO_GROUPS: Final = "Without writable control groups (run as root, or delegate them) a memory limit holds for each process."


class LocalProvider(SandboxProvider):
    """Sandboxes below `home`, a folder of this user's; those of root are below `ROOTS_PLACE`."""

    name = "local"
    isolation = "process"
    declared = Capabilities(
        networks=frozenset({"none", "public"}),
        rootfs=True,
        writable_system=True,
        user=True,
        cpu=True,
        memory="sandbox",
        pids=True,
        disk=True,
        mounts=True,
        idle_timeout=True,
        pause=True,
        fork_scopes=frozenset({"workspace", "filesystem"}),
        native_fork=True,
        fork_pauses=True,
    )

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
        self._layers = Layers(self._sandboxes)

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
        if cgroups.usable():
            return self.declared
        return replace(self.declared, cpu=False, memory="process", notes=(_NO_GROUPS,))

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        await self.check(spec)
        if from_snapshot is None:
            return await self._create(spec, labels, Below())
        below = self._layers.below(self._snapshot_folder(from_snapshot.id).name).with_top(from_snapshot.id, system=False)
        if not _in_memory(spec):
            return await self._create(spec, labels, below)
        # What is held in memory stands on nothing: it gets its files from a sandbox that is not.
        between = await self._create(_on_disk(spec), labels, below)
        try:
            return copying.only(await copying.forked(self, between, spec, [labels or {}]))
        finally:
            await self.destroy(between)

    async def _create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None, below: Below, parent: Process | None = None
    ) -> SandboxHandle:
        """Make a sandbox that stands on these layers; `parent` must stand still."""
        created, expires = lifetime_stamps(spec)
        data = {"workdir": spec.workdir, **spec.told()}
        handle = SandboxHandle(self.name, new_sandbox_id(), dict(labels or {}), created, expires, data)
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, spec, handle, below, parent))
        try:
            await asyncio.shield(starting)
            await (await self._connect(handle, launch.START_SECONDS)).aclose()
        except BaseException as exc:
            await asyncio.wait([starting])  # a thread cannot be cancelled: what it still starts has to be destroyed too
            said = self._log(handle.id)
            await self.destroy(handle)
            if isinstance(exc, (SandboxError, OSError)) and not isinstance(exc, SandboxNotFound):
                raise SandboxError(f"the sandbox did not start: {said or exc}") from exc
            raise
        return handle

    def _folder(self, sandbox_id: str) -> Path:
        """The one way from an id to a path: a forged id would name any folder at all."""
        if not is_sandbox_id(sandbox_id):
            raise SandboxNotFound(f"{sandbox_id!r:.80} is not the id of a local sandbox")
        return self._sandboxes / sandbox_id

    def _snapshot_folder(self, snapshot_id: str) -> Path:
        if not is_snapshot_id(snapshot_id):
            raise SandboxNotFound(f"{snapshot_id!r:.80} is not the id of a local snapshot")
        return self._sandboxes / snapshot_id

    def _start(self, spec: SandboxSpec, handle: SandboxHandle, below: Below, parent: Process | None) -> None:
        layout = jail.Layout(self._folder(handle.id))
        with self._layers.locked():
            if parent is not None and not (parent.alive() and parent.still()):
                raise SandboxGone("the sandbox that is forked has ended, or goes on again")
            origin = below.workspace[-1] if below.workspace else None
            self._layers.add(handle.id, "handle.json", json.dumps(handle.to_json()), below, origin)
        lowers = jail.Lowers(
            tuple(self._sandboxes / name / "upper" for name in below.workspace),
            tuple(self._sandboxes / name / jail.system_layer(spec) for name in below.system),
        )
        if not all(folder.is_dir() for folder in lowers.system):
            raise SandboxError("a fork of the filesystem has to have the system that its parent has: its `rootfs`, or none")
        layout.make(self._owner, lowers)
        uid, gid = jail.numeric_user(spec)
        jail.write_etc(layout, uid, gid)
        skeleton = system.skeleton(self._shared, self._owner) if spec.system == "overlay" and not spec.rootfs else None
        arguments = jail.arguments(spec, layout, system.toolbox(self._shared), skeleton, lowers)
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
        await asyncio.to_thread(self._resume, handle)

    def _resume(self, handle: SandboxHandle) -> None:
        process = self._living(handle)
        with self._layers.locked():
            if forks := self._layers.standing_on(handle.id):
                raise SandboxError(
                    f"local sandbox {handle.id} cannot go on while {len(forks)} others stand on its files: "
                    f"destroy {', '.join(forks[:10])} first"
                )
            process.go_on()

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """See `SandboxProvider`. What is held in memory, on either side, is copied."""
        wanted, each = await self.check_fork(handle, count, spec, labels, scope)
        with_system = scope == "filesystem" and handle.told_spec.system == "overlay"
        process = self._living(handle)
        below = self._layers.below(handle.id).with_top(handle.id, system=with_system)
        if _in_memory(handle.told_spec) or _in_memory(wanted) or self._too_deep(below):
            if with_system:
                raise Unsupported("local forks the filesystem only where nothing is held in memory (`resources.disk`)")
            return await copying.forked(self, handle, wanted, each)

        async def children() -> list[Forked]:
            return await copying.settled([self._create(wanted, one, below, process) for one in each], self)

        return await standing.while_still(self, handle, not process.still(), children, standing.any_made)

    def _too_deep(self, below: Below) -> bool:
        """Whether the kernel could not be told of so many layers."""
        return sum(len(os.fsencode(self._sandboxes / name / "upper")) + 9 for name in below.workspace) > LOWERS_CAP

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`. It stays until it is deleted; the sandbox stands still while what it wrote is copied."""
        process = self._living(handle)
        if _in_memory(handle.told_spec):
            between = copying.only(await copying.forked(self, handle, _on_disk(handle.told_spec), [labels or {}]))
            try:
                return await self.snapshot(between, labels)
            finally:
                await self.destroy(between)
        created = datetime.now(UTC).isoformat()
        made = SnapshotHandle(self.name, new_snapshot_id(), dict(labels or {}), created, "", handle.data)

        async def keep() -> None:
            await standing.to_its_end(asyncio.to_thread(self._keep, handle.id, made))

        try:
            await standing.while_still(self, handle, not process.still(), keep)
        except BaseException:
            await self.delete_snapshot(made)
            raise
        return made

    def _keep(self, sandbox_id: str, made: SnapshotHandle) -> None:
        with self._layers.locked():
            below = self._layers.below(sandbox_id)
            self._layers.add(made.id, "snapshot.json", json.dumps(made.to_json()), below, sandbox_id)
        upper = self._folder(sandbox_id) / "upper"
        snapshots.copy_layer(upper, self._snapshot_folder(made.id) / "upper", self._bwrap(), self._owner)

    async def delete_snapshot(self, snapshot: SnapshotHandle) -> None:
        """See `SandboxProvider`."""
        await asyncio.to_thread(self._layers.retire, self._snapshot_folder(snapshot.id).name)

    async def find_snapshots(self, labels: Mapping[str, str] | None = None) -> list[SnapshotHandle]:
        """See `SandboxProvider`."""
        paths = [*self._sandboxes.glob("snp-*/snapshot.json"), *self._unneeded("snp-*")]
        return [SnapshotHandle.from_json(one) for one in _told(paths) if (labels or {}).items() <= one["labels"].items()]

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
        self._layers.retire(folder.name)

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """See `SandboxProvider`."""
        paths = [*self._sandboxes.glob("sbx-*/handle.json"), *self._unneeded("sbx-*")]
        return [SandboxHandle.from_json(one) for one in _told(paths) if (labels or {}).items() <= one["labels"].items()]

    def _unneeded(self, pattern: str) -> list[Path]:
        """Records of what was left by somebody who was killed while it was removed."""
        return [folder / HUSK for folder in self._layers.unneeded() if folder.match(pattern)]


def _told(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """What is in these files, as far as they are there."""
    for path in sorted(paths):
        with contextlib.suppress(OSError, ValueError):
            yield json.loads(path.read_text())


def _in_memory(spec: SandboxSpec) -> bool:
    """Whether the working directory is: then nothing can stand on it, and it on nothing."""
    return spec.resources.disk is not None


def _on_disk(spec: SandboxSpec) -> SandboxSpec:
    """A sandbox that holds the same files for a while."""
    return spec.model_copy(update={"resources": spec.resources.model_copy(update={"disk": None}), "mounts": ()})
