"""A sandbox without Python: the same protocol over plain exec and POSIX `sh`, slower, with the same results.

Needs a platform that can run a command (`sandboxes.toolbox.shell_exec.Exec`) and an image with `sh` and the usual small tools
(coreutils or busybox). The scripts are in `scripts/`; what is decided, is decided here by the helper's own pure functions.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from sandboxes import protocol as p
from sandboxes.errors import SandboxError
from sandboxes.portal import on
from sandboxes.sandbox import Applied, Changed, Command, CommandSpec, Edit, FileEntry, Sandbox
from sandboxes.toolbox import replies
from sandboxes.toolbox.attached import EXECUTE_SECONDS, OUTPUT_CAP
from sandboxes.toolbox.calls import next_call_id
from sandboxes.toolbox.client import Reply
from sandboxes.toolbox.helper import text
from sandboxes.toolbox.shell_command import POLL_SECONDS, Polled, ShellCommand
from sandboxes.toolbox.shell_edits import ShellEdits
from sandboxes.toolbox.shell_exec import Exec
from sandboxes.toolbox.shell_files import BATCH, SMALL, Put, ShellFiles
from sandboxes.toolbox.shell_search import ShellSearch
from sandboxes.toolbox.shell_wire import Channel
from sandboxes.toolbox.transfer import DOWNLOAD_CAP
from sandboxes.workspace.changes import check_edits, difference

PARALLEL = 16
"""Scripts of one client that run at once: each is several processes in the sandbox."""


class ShellSandbox(Sandbox):
    """An attached sandbox whose image has no Python. Made by `attach`."""

    def __init__(self, channel: Channel, *, sandbox_id: str, workdir: str) -> None:
        super().__init__()
        self._channel = channel
        self._id = sandbox_id
        self._workdir = workdir
        self._files = ShellFiles(channel)
        self._search = ShellSearch(channel, self._files)
        self._edits = ShellEdits(channel, self._files)
        self._editing = asyncio.Lock()

    @classmethod
    async def attach(cls, run: Exec, *, sandbox_id: str, workdir: str, state: str) -> ShellSandbox:
        """Attach over `run`. `state` is a folder in the sandbox for us, which exists. Raises `SandboxError`."""
        channel = Channel(run, state, PARALLEL)
        missing = (await channel.call("check")).decode("ascii", "replace").split()
        if missing[:-1] or missing[-1:] != ["ok"]:
            raise SandboxError(
                f"the sandbox's image has no {', '.join(missing[:-1])}: without Python it needs coreutils or busybox"
            )
        return cls(channel, sandbox_id=sandbox_id, workdir=workdir)

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self._id

    @property
    def workdir(self) -> str:
        """See `Sandbox`."""
        return self._workdir

    async def aclose(self) -> None:
        """See `Sandbox`. There is no connection to end: later calls fail."""
        self._channel.close()

    def _path(self, path: str) -> str:
        checked: str = text.absolute(path, self._workdir)
        return checked

    # -- the protocol

    async def als(self, path: str) -> p.LsResult:
        """See the protocol."""
        try:
            entries = await self._files.ls(self._path(path))
        except text.Refused as exc:
            return p.LsResult(error=exc.message)
        return p.LsResult(entries=replies.entries(Reply({"entries": entries}), "entries"))

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See the protocol. With `byte_offset` the window starts at that byte, whatever line it is in."""
        try:
            result: dict[str, Any] = await self._files.read(self._path(file_path), offset, limit, byte_offset)
        except text.Refused as exc:
            return p.ReadResult(error=exc.message)
        return replies.read_result(Reply(result, result.pop("content").encode()), file_path)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        try:
            return await self._search.grep(pattern, self._path(path or "."), glob, max_count)
        except text.Refused as exc:
            return p.GrepResult(error=exc.message)

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        try:
            return await self._search.glob(pattern, self._path(path or "."))
        except text.Refused as exc:
            return p.GlobResult(error=exc.message)

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        key = next_call_id()
        try:
            data = content.encode("utf-8", "surrogateescape")
            await self._files.put(Put(self._path(file_path), data, exclusive=True, key=key))
        except UnicodeEncodeError as exc:
            return p.WriteResult(error=f"Error: the content cannot be written as UTF-8: {exc.reason}")
        except text.Refused as exc:
            return p.WriteResult(error=exc.message)
        return p.WriteResult(path=file_path)

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol. Edits of one client wait for each other; those of others are noticed, and it begins again."""
        key = next_call_id()
        try:
            count = await on(self.home, self._edit(self._path(file_path), old_string, new_string, replace_all, key))
        except text.Refused as exc:
            return p.EditResult(error=exc.message)
        return p.EditResult(path=file_path, occurrences=count)

    async def _edit(self, path: str, old: str, new: str, replace_all: bool, key: str | None) -> int:
        async with self._editing:
            return await self._files.edit(path, old, new, replace_all, key)

    async def adelete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        key = next_call_id()
        try:
            await self._files.delete(self._path(file_path), key)
        except text.Refused as exc:
            return p.DeleteResult(error=exc.message)
        return p.DeleteResult(path=file_path)

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol. In order, so that of a path that comes twice the later content stays."""
        responses = [p.FileUploadResponse(path) for path, _ in files]
        puts: list[Put] = []
        places: list[int] = []
        for index, (path, content) in enumerate(files):
            key = next_call_id()
            try:
                puts.append(Put(self._path(path), content, key=key))
                places.append(index)
            except text.Refused as exc:
                responses[index].error = replies.file_error(exc)
        for index, outcome in zip(places, await self._files.store(puts), strict=True):
            if isinstance(outcome, text.Refused):
                responses[index].error = replies.file_error(outcome)
            elif isinstance(outcome, Exception):
                raise outcome
        return responses

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol. A file over `DOWNLOAD_CAP` is an error: `download_stream` takes it."""
        responses = [p.FileDownloadResponse(path) for path in paths]
        places: list[int] = []
        for index, path in enumerate(paths):
            try:
                self._path(path)
                places.append(index)
            except text.Refused as exc:
                responses[index].error = replies.file_error(exc)
        outcomes = await self._files.fetch([self._path(paths[index]) for index in places], DOWNLOAD_CAP)
        for index, outcome in zip(places, outcomes, strict=True):
            if isinstance(outcome, bytes):
                responses[index].content = outcome
            elif isinstance(outcome, text.Refused):
                responses[index].error = replies.file_error(outcome)
            else:
                raise outcome
        return responses

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol. Cancelling it kills the command, unless it `leaves_commands`."""
        limit = float(timeout) if timeout is not None else EXECUTE_SECONDS
        running = ShellCommand(self._channel, next_call_id() or secrets.token_hex(12))
        spec = CommandSpec(command, timeout=limit, merge=True)
        beginning = asyncio.ensure_future(running.begin(spec, self._workdir, window=OUTPUT_CAP, wait=POLL_SECONDS))
        try:
            news = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            beginning.cancel()
            if not self.leaves_commands:
                await asyncio.shield(running.forestall())
            raise
        return await self._response(running, await self._until_ended(running, news))

    async def _until_ended(self, command: ShellCommand, news: Polled) -> Polled:
        """Wait for the end of a command of which `news` has come."""
        try:
            while news.result is None:
                news = await command.poll(0, 0, window=0, wait_for="end")
        except asyncio.CancelledError:
            if not self.leaves_commands:
                await asyncio.shield(command.kill())
            raise
        return news

    async def _response(self, command: ShellCommand, news: Polled) -> p.ExecuteResponse:
        """All of the output; or its head and its tail, around a note."""
        assert news.result is not None
        total = news.out + news.result.lost
        if total <= OUTPUT_CAP:
            output = news.stdout if len(news.stdout) == news.out else (await self._range(command, 0, news.out))
            return p.ExecuteResponse(
                output.decode("utf-8", "replace"), news.result.exit_code, timed_out=news.result.timed_out
            )
        half = OUTPUT_CAP // 2
        head = await self._range(command, 0, half)
        tail = await command.tail(half) if news.result.lost else await self._range(command, max(half, news.out - half), half)
        reply = {
            "exit_code": news.result.exit_code,
            "timed_out": news.result.timed_out,
            "lost": news.result.lost,
            "head": len(head),
            "omitted": total - len(head) - len(tail),
            "file": command.output_file,
        }
        return replies.execute_response(Reply(reply, head + tail))

    async def _range(self, command: ShellCommand, start: int, length: int) -> bytes:
        return (await command.poll(start, 0, window=length, wait_for="end", wait=0)).stdout

    # -- beyond the protocol

    async def start(self, spec: CommandSpec, *, call_id: str | None = None) -> Command:
        """See `Sandbox`."""
        try:
            cwd = self._path(spec.cwd or self._workdir)
        except text.Refused as exc:
            raise ValueError(exc.message) from exc
        command = ShellCommand(self._channel, call_id or secrets.token_hex(12))
        await command.begin(spec, cwd)
        return command

    async def command(self, call_id: str) -> Command | None:
        """See `Sandbox`."""
        command = ShellCommand(self._channel, call_id)
        return command if await command.known() else None

    async def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """See `Sandbox`."""
        try:
            async for piece in self._files.download(self._path(path)):
                yield piece
        except text.Refused as exc:
            raise replies.os_error(exc, path) from exc

    async def download_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        """See `Sandbox`. Up to `SMALL` bytes one script fetches many; what a script did not come to is fetched by itself."""
        outcomes: list[bytes | OSError | None] = []
        for at in range(0, len(files), BATCH):
            batch = files[at : at + BATCH]
            outcomes += await self._together(batch)
            outcomes += await super().download_small(files[len(outcomes) : at + len(batch)])
        return outcomes

    async def _together(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        if any(size > SMALL for _, size in files):
            return []
        try:
            got = await self._files.fetch_small([(self._path(path), size) for path, size in files])
        except text.Refused:
            return []
        outcomes: list[bytes | OSError | None] = []
        for (path, _), one in zip(files, got, strict=False):
            if isinstance(one, text.Refused):
                outcomes.append(replies.os_error(one, path))
            elif isinstance(one, Exception):
                raise one
            else:
                outcomes.append(one)
        return outcomes

    async def upload_stream(self, path: str, content: AsyncIterable[bytes], *, mode: int = 0o644) -> None:
        """See `Sandbox`."""
        key = next_call_id()
        try:
            await self._files.upload(self._path(path), content, mode, key)
        except text.Refused as exc:
            raise replies.os_error(exc, path) from exc

    async def manifest(self, root: str, *, exclude: Sequence[str] = (), folders: bool = False) -> list[FileEntry]:
        """See `Sandbox`."""
        return await self._manifest(root, exclude, folders, [])

    async def changes(
        self, root: str, base: Mapping[str, FileEntry], *, exclude: Sequence[str] = (), folders: bool = False
    ) -> Changed:
        """See `Sandbox`. All of it is looked at."""
        closed = self.closed_below(root)
        now = await self._manifest(root, exclude, folders, closed)
        return await asyncio.to_thread(difference, base, now, folders=folders, closed=closed)

    async def _manifest(self, root: str, exclude: Sequence[str], folders: bool, closed: Sequence[str]) -> list[FileEntry]:
        try:
            return await self._search.manifest(self._path(root), exclude, folders, closed)
        except text.Refused as exc:
            raise replies.os_error(exc, root) from exc

    async def apply(
        self, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], *, call_id: str
    ) -> Applied:
        """See `Sandbox`."""
        try:
            return await self._edits.apply(self._path(root), check_edits(edits), contents, call_id)
        except text.Refused as exc:
            raise replies.os_error(exc, root) from exc
