"""Sandboxes and providers that misbehave on purpose, for tests of what uses them.

    box = Slow(0.5).sandbox(real)                          # every call half a second late
    box = Never(only={"execute"}).sandbox(real)            # reads well, never runs anything
    provider = Broken(ProviderUnavailable("no engine"), only={"create"}).provider(real)

`only` names calls as the protocol does (`read`, `execute`, `upload_stream`, `create`, `attach`); without it all are meant. A
provider hands its fault on to the sandboxes that it attaches. Closing and destroying always work unless they are named, so
that a test can tidy up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from sandboxes import protocol as p
from sandboxes.providers.base import (
    Capabilities,
    Forked,
    Labels,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    Scope,
    SnapshotHandle,
)
from sandboxes.sandbox import Applied, Changed, Command, CommandSpec, Edit, FileEntry, Sandbox

TIDYING = frozenset({"aclose", "destroy"})
"""Calls that a fault spares unless it names them."""


@dataclass(frozen=True, kw_only=True)
class Fault(ABC):
    """A way to misbehave."""

    only: AbstractSet[str] = field(default=frozenset())
    """Names of the calls that misbehave; empty: all but `TIDYING`."""

    async def strike(self, call: str) -> None:
        """Misbehave if this call is meant."""
        if call in self.only or (not self.only and call not in TIDYING):
            await self.misbehave(call)

    @abstractmethod
    async def misbehave(self, call: str) -> None:
        """What happens before the call is passed on; raising keeps it from being passed on."""

    def sandbox(self, inner: Sandbox) -> FaultySandbox:
        """`inner`, misbehaving."""
        return FaultySandbox(inner, self)

    def provider(self, inner: SandboxProvider) -> FaultyProvider:
        """`inner`, misbehaving, and so do its sandboxes."""
        return FaultyProvider(inner, self)


@dataclass(frozen=True)
class Slow(Fault):
    """Everything works, late."""

    seconds: float

    async def misbehave(self, call: str) -> None:
        """Wait."""
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True)
class Never(Fault):
    """No answer ever comes; what waits can be cancelled."""

    async def misbehave(self, call: str) -> None:
        """Wait for ever."""
        await asyncio.get_running_loop().create_future()


@dataclass(frozen=True)
class Broken(Fault):
    """Each call raises `error`."""

    error: Exception

    async def misbehave(self, call: str) -> None:
        """Raise."""
        raise self.error


class FaultyProvider(SandboxProvider):
    """A provider with a fault. It keeps the name of the one that it wraps, so that handles fit both."""

    def __init__(self, inner: SandboxProvider, fault: Fault) -> None:
        self.name = inner.name
        self.isolation = inner.isolation
        self._inner = inner
        self._fault = fault

    async def capabilities(self) -> Capabilities:
        """See `SandboxProvider`."""
        await self._fault.strike("capabilities")
        return await self._inner.capabilities()

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        await self._fault.strike("create")
        return await self._inner.create(spec, labels, from_snapshot=from_snapshot)

    async def attach(self, handle: SandboxHandle) -> Sandbox:
        """See `SandboxProvider`."""
        await self._fault.strike("attach")
        return self._fault.sandbox(await self._inner.attach(handle))

    async def destroy(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._fault.strike("destroy")
        await self._inner.destroy(handle)

    async def find(self, labels: Mapping[str, str] | None = None) -> list[SandboxHandle]:
        """See `SandboxProvider`."""
        await self._fault.strike("find")
        return await self._inner.find(labels)

    async def pause(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._fault.strike("pause")
        await self._inner.pause(handle)

    async def resume(self, handle: SandboxHandle) -> None:
        """See `SandboxProvider`."""
        await self._fault.strike("resume")
        await self._inner.resume(handle)

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """See `SandboxProvider`."""
        await self._fault.strike("fork")
        return await self._inner.fork(handle, count, spec=spec, labels=labels, scope=scope)

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`."""
        await self._fault.strike("snapshot")
        return await self._inner.snapshot(handle, labels)

    async def delete_snapshot(self, snapshot: SnapshotHandle) -> None:
        """See `SandboxProvider`."""
        await self._fault.strike("delete_snapshot")
        await self._inner.delete_snapshot(snapshot)

    async def find_snapshots(self, labels: Mapping[str, str] | None = None) -> list[SnapshotHandle]:
        """See `SandboxProvider`."""
        await self._fault.strike("find_snapshots")
        return await self._inner.find_snapshots(labels)

    async def aclose(self) -> None:
        """See `SandboxProvider`."""
        await self._fault.strike("aclose")
        await self._inner.aclose()


class FaultySandbox(Sandbox):
    """A sandbox with a fault. It lives on the loop of the one that it wraps."""

    def __init__(self, inner: Sandbox, fault: Fault) -> None:
        self._home = inner.home
        self._inner = inner
        self._fault = fault

    @property
    def id(self) -> str:
        """The id of the real sandbox."""
        return self._inner.id

    @property
    def workdir(self) -> str:
        """See `Sandbox`."""
        return self._inner.workdir

    async def als(self, path: str) -> p.LsResult:
        """See the protocol."""
        await self._fault.strike("ls")
        return await self._inner.als(path)

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See `Sandbox`."""
        await self._fault.strike("read")
        return await self._inner.aread(file_path, offset, limit, byte_offset=byte_offset)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        await self._fault.strike("grep")
        return await self._inner.agrep(pattern, path, glob, max_count=max_count)

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        await self._fault.strike("glob")
        return await self._inner.aglob(pattern, path)

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        await self._fault.strike("write")
        return await self._inner.awrite(file_path, content)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        await self._fault.strike("edit")
        return await self._inner.aedit(file_path, old_string, new_string, replace_all)

    async def adelete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        await self._fault.strike("delete")
        return await self._inner.adelete(file_path)

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol."""
        await self._fault.strike("upload_files")
        return await self._inner.aupload_files(files)

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        await self._fault.strike("download_files")
        return await self._inner.adownload_files(paths)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol."""
        await self._fault.strike("execute")
        return await self._inner.aexecute(command, timeout=timeout)

    async def start(self, spec: CommandSpec, *, call_id: str | None = None) -> Command:
        """See `Sandbox`."""
        await self._fault.strike("start")
        return await self._inner.start(spec, call_id=call_id)

    async def command(self, call_id: str) -> Command | None:
        """See `Sandbox`."""
        await self._fault.strike("command")
        return await self._inner.command(call_id)

    async def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """See `Sandbox`."""
        await self._fault.strike("download_stream")
        async for piece in self._inner.download_stream(path):
            yield piece

    async def download_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        """See `Sandbox`."""
        await self._fault.strike("download_small")
        return await self._inner.download_small(files)

    async def upload_stream(self, path: str, content: AsyncIterable[bytes], *, mode: int = 0o644) -> None:
        """See `Sandbox`."""
        await self._fault.strike("upload_stream")
        await self._inner.upload_stream(path, content, mode=mode)

    async def manifest(self, root: str, *, exclude: Sequence[str] = (), folders: bool = False) -> list[FileEntry]:
        """See `Sandbox`."""
        await self._fault.strike("manifest")
        return await self._inner.manifest(root, exclude=exclude, folders=folders)

    async def changes(
        self, root: str, base: Mapping[str, FileEntry], *, exclude: Sequence[str] = (), folders: bool = False
    ) -> Changed:
        """See `Sandbox`."""
        await self._fault.strike("changes")
        return await self._inner.changes(root, base, exclude=exclude, folders=folders)

    async def apply(
        self, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], *, call_id: str
    ) -> Applied:
        """See `Sandbox`."""
        await self._fault.strike("apply")
        return await self._inner.apply(root, edits, contents, call_id=call_id)

    async def aclose(self) -> None:
        """See `Sandbox`."""
        await self._fault.strike("aclose")
        await self._inner.aclose()
