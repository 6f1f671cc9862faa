"""A sandbox that is made when it is first used: an agent that only thinks needs none."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from sandboxes import protocol as p
from sandboxes.portal import on
from sandboxes.sandbox import Applied, Changed, Command, CommandSpec, Edit, FileEntry, Sandbox


class DeferredSandbox(Sandbox):
    """Has the real one made by the first call, and passes every call on to it."""

    def __init__(self, workdir: str, make: Callable[[], Coroutine[Any, Any, Sandbox]]) -> None:
        super().__init__()
        self._workdir = workdir
        self._make = make
        self._context = contextvars.copy_context()  # that of the call that happens to be the first has ids of its own
        self._making: asyncio.Task[Sandbox] | None = None

    @property
    def begun(self) -> bool:
        """Whether there is a sandbox, or a part of one."""
        return self._making is not None

    @property
    def id(self) -> str:
        """That of the real one; nothing before there is one."""
        made = self._making
        return made.result().id if made and made.done() and not made.cancelled() and not made.exception() else ""

    @property
    def workdir(self) -> str:
        """See `Sandbox`."""
        return self._workdir

    async def aclose(self) -> None:
        """Make none any more: one that is being made is left half-made. Who made it closes the real one."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait([self._making])

    async def _real(self) -> Sandbox:
        """The sandbox. A call that is cancelled does not end its making: other calls may wait for it."""
        return await on(self.home, self._made())

    async def _made(self) -> Sandbox:
        if self._making is None:
            self._making = self.home.create_task(self._make(), context=self._context)
            self._making.add_done_callback(_heard)
        return await asyncio.shield(self._making)

    async def als(self, path: str) -> p.LsResult:
        """See the protocol."""
        return await (await self._real()).als(path)

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See `Sandbox`."""
        return await (await self._real()).aread(file_path, offset, limit, byte_offset=byte_offset)

    async def agrep(self, *args: Any, **options: Any) -> p.GrepResult:
        """See the protocol."""
        return await (await self._real()).agrep(*args, **options)

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return await (await self._real()).aglob(pattern, path)

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        return await (await self._real()).awrite(file_path, content)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        return await (await self._real()).aedit(file_path, old_string, new_string, replace_all)

    async def adelete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        return await (await self._real()).adelete(file_path)

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol."""
        return await (await self._real()).aupload_files(files)

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return await (await self._real()).adownload_files(paths)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol."""
        return await (await self._real()).aexecute(command, timeout=timeout)

    async def start(self, spec: CommandSpec, *, call_id: str | None = None) -> Command:
        """See `Sandbox`."""
        return await (await self._real()).start(spec, call_id=call_id)

    async def command(self, call_id: str) -> Command | None:
        """See `Sandbox`."""
        return await (await self._real()).command(call_id)

    async def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """See `Sandbox`."""
        async for piece in (await self._real()).download_stream(path):
            yield piece

    async def download_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        """See `Sandbox`."""
        return await (await self._real()).download_small(files)

    async def upload_stream(self, path: str, content: AsyncIterable[bytes], *, mode: int = 0o644) -> None:
        """See `Sandbox`."""
        await (await self._real()).upload_stream(path, content, mode=mode)

    async def manifest(self, root: str, *, exclude: Sequence[str] = (), folders: bool = False) -> list[FileEntry]:
        """See `Sandbox`."""
        return await (await self._real()).manifest(root, exclude=exclude, folders=folders)

    async def changes(
        self, root: str, base: Mapping[str, FileEntry], *, exclude: Sequence[str] = (), folders: bool = False
    ) -> Changed:
        """See `Sandbox`."""
        return await (await self._real()).changes(root, base, exclude=exclude, folders=folders)

    async def apply(
        self, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], *, call_id: str
    ) -> Applied:
        """See `Sandbox`."""
        return await (await self._real()).apply(root, edits, contents, call_id=call_id)


def _heard(making: asyncio.Task[Sandbox]) -> None:
    """An error belongs to the calls that wait; there may be none left."""
    if not making.cancelled():
        making.exception()
