"""The base of backends whose files are entries under keys: agent state, a langgraph store, a bucket, a table."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from sandboxes import protocol as p
from sandboxes.backends.keyed import operations, searching
from sandboxes.backends.keyed.entries import Direct, Entries, KeyValue, PathLocks
from sandboxes.backends.keyed.filedata import FileFormat
from sandboxes.portal import finished

R = TypeVar("R")


class KeyValueBackend(KeyValue, p.BackendProtocol):
    """A backend over `load`, `save`, `remove` and `scan`: a subclass writes these four, and has the whole protocol.

    Folders are there as long as a file is in them. Two calls of one form (sync or async) on one instance never undo each
    other's change of a file; what other processes do at the same time is between them and the place. The async forms run the
    sync ones in a thread.
    """

    def __init__(self, *, file_format: FileFormat = "v2") -> None:
        if file_format not in ("v1", "v2"):
            raise ValueError(f"file_format is {file_format!r}: use 'v2', or 'v1' for readers that know no other")
        self.file_format = file_format
        self._locks: PathLocks[threading.Lock] = PathLocks(threading.Lock)

    def _entries(self) -> Entries:
        return Direct(self, self._locks)

    def _perform(self, operation: Callable[..., Coroutine[Any, Any, R]], *args: Any, **kwargs: Any) -> R:
        return finished(operation(self._entries(), *args, **kwargs))

    async def _twin(
        self, method: Callable[..., R], operation: Callable[..., Coroutine[Any, Any, R]], *args: Any, **kwargs: Any
    ) -> R:
        """The async form of `method`, which performs `operation`. It goes through `method`, which a subclass may guard."""
        return await asyncio.to_thread(method, *args, **kwargs)

    def ls(self, path: str) -> p.LsResult:
        """See the protocol."""
        return self._perform(operations.ls, path)

    async def als(self, path: str) -> p.LsResult:
        """See the protocol."""
        return await self._twin(self.ls, operations.ls, path)

    def read(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See the protocol. With `byte_offset` the window starts at that byte, whatever line it is in."""
        return self._perform(operations.read, file_path, offset, limit, byte_offset=byte_offset)

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See the protocol. With `byte_offset` the window starts at that byte, whatever line it is in."""
        more = {} if byte_offset is None else {"byte_offset": byte_offset}
        return await self._twin(self.read, operations.read, file_path, offset, limit, **more)

    def read_raw(self, file_path: str) -> p.ReadRawResult:
        """See the protocol."""
        return self._perform(operations.read_raw, file_path)

    async def aread_raw(self, file_path: str) -> p.ReadRawResult:
        """See the protocol."""
        return await self._twin(self.read_raw, operations.read_raw, file_path)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        return self._perform(searching.grep, pattern, path, glob, max_count=max_count)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        return await self._twin(self.grep, searching.grep, pattern, path, glob, max_count=max_count)

    def glob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return self._perform(searching.glob, pattern, path)

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return await self._twin(self.glob, searching.glob, pattern, path)

    def write(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        return self._perform(operations.write, file_path, content)

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        return await self._twin(self.write, operations.write, file_path, content)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        return self._perform(operations.edit, file_path, old_string, new_string, replace_all)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        return await self._twin(self.edit, operations.edit, file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        return self._perform(operations.delete, file_path)

    async def adelete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        return await self._twin(self.delete, operations.delete, file_path)

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol. Of a path that comes twice the later content stays."""
        return self._perform(operations.upload_files, files)

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol. Of a path that comes twice the later content stays."""
        return await self._twin(self.upload_files, operations.upload_files, files)

    def download_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return self._perform(operations.download_files, paths)

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return await self._twin(self.download_files, operations.download_files, paths)
