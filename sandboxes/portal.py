"""The sync form of what is async by nature: one background event loop for the process; and the way from one loop to another.

`AsyncBackend` implements each sync method of the protocol by its async twin on that loop, so that a provider writes one form
only. Everything a sandbox connection does (sockets, futures) lives on the loop that made the connection; a call from another
one hops there (`on`).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from sandboxes import protocol as p

T = TypeVar("T")


class Portal:
    """A background thread with an event loop, started at first use, daemonic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The background loop, running."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="fanfold-portal", daemon=True).start()
            return self._loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the background loop and wait for it, in the caller's context variables."""
        return run_on(self.loop, coroutine)


def run_on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on `loop`, which runs in another thread, and wait for it, in the caller's context variables."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        coroutine.close()
        raise RuntimeError("a sync backend method was called on the event loop that serves it: await its async form")

    async def in_context() -> T:
        return await loop.create_task(coroutine, context=context)

    context = contextvars.copy_context()
    future = asyncio.run_coroutine_threadsafe(in_context(), loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on the loop that it belongs to: here when that is the running one, else there."""
    if loop is asyncio.get_running_loop():
        return await coroutine
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))


portal = Portal()
"""The process's own. It holds no state but its loop."""


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits for an event loop: it needs none. Raises `RuntimeError` when it does wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that must not wait has waited for an event loop")


class AsyncBackend(p.SandboxBackendProtocol):
    """Base of backends that are async by nature: they implement the `a...` methods and `home`."""

    @property
    def home(self) -> asyncio.AbstractEventLoop:
        """The loop on which this backend's connections live."""
        return portal.loop

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return run_on(self.home, coroutine)

    def ls(self, path: str) -> p.LsResult:
        """See the protocol."""
        return self._run(self.als(path))

    def read(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> p.ReadResult:
        """See the protocol."""
        return self._run(self.aread(file_path, offset, limit))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        return self._run(self.agrep(pattern, path, glob, max_count=max_count))

    def glob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return self._run(self.aglob(pattern, path))

    def write(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        return self._run(self.awrite(file_path, content))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        return self._run(self.aedit(file_path, old_string, new_string, replace_all))

    def delete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        return self._run(self.adelete(file_path))

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol."""
        return self._run(self.aupload_files(files))

    def download_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return self._run(self.adownload_files(paths))

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol."""
        return self._run(self.aexecute(command, timeout=timeout))
