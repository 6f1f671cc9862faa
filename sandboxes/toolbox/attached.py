"""A sandbox reached through its resident helper: the protocol's methods as calls of the toolbox."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence

from sandboxes import protocol as p
from sandboxes.sandbox import Applied, Changed, Command, CommandSpec, Edit, FileEntry, Sandbox
from sandboxes.toolbox import applying, replies, transfer
from sandboxes.toolbox.calls import next_call_id
from sandboxes.toolbox.client import Refusal, ToolboxClient
from sandboxes.toolbox.command import ToolboxCommand
from sandboxes.toolbox.helper import text
from sandboxes.toolbox.transfer import asked_long
from sandboxes.workspace.changes import check_edits, difference, layer_difference

EXECUTE_SECONDS = 1800.0
"""How long `execute` lets a command run that was given no timeout."""
EXECUTE_GRACE = 60.0
"""Seconds beyond a command's own timeout that the helper gets to kill it and to answer."""
OUTPUT_CAP = 100_000
"""Bytes of output that `execute` returns at most, half of it from the head and half from the tail."""


class ToolboxSandbox(Sandbox):
    """An attached sandbox whose helper answers."""

    def __init__(
        self,
        client: ToolboxClient,
        *,
        sandbox_id: str,
        workdir: str,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._id = sandbox_id
        self._workdir = workdir
        self._on_close = on_close

    @property
    def id(self) -> str:
        """The sandbox's id."""
        return self._id

    @property
    def workdir(self) -> str:
        """See `Sandbox`."""
        return self._workdir

    async def aclose(self) -> None:
        """See `Sandbox`."""
        await self._client.aclose()
        if self._on_close is not None:
            await self._on_close()

    # -- the protocol

    async def als(self, path: str) -> p.LsResult:
        """See the protocol."""
        try:
            return p.LsResult(entries=replies.entries(await self._client.call("ls", path=path), "entries"))
        except Refusal as exc:
            return p.LsResult(error=exc.message)

    async def aread(
        self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT, *, byte_offset: int | None = None
    ) -> p.ReadResult:
        """See the protocol. With `byte_offset` the window starts at that byte, whatever line it is in."""
        try:
            reply = await self._client.call("read", path=file_path, offset=offset, limit=limit, byte_offset=byte_offset)
        except Refusal as exc:
            return p.ReadResult(error=exc.message)
        return replies.read_result(reply, file_path)

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        below = "." if path is None else path
        try:
            reply = await self._client.call("grep", pattern=pattern, path=below, glob=glob, max_count=max_count)
        except Refusal as exc:
            return p.GrepResult(error=exc.message)
        return replies.grep_result(reply)

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        try:
            reply = await self._client.call("glob", pattern=pattern, path="." if path is None else path)
        except Refusal as exc:
            return p.GlobResult(error=exc.message)
        return replies.glob_result(reply)

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        try:
            data = content.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as exc:
            return p.WriteResult(error=f"Error: the content cannot be written as UTF-8: {exc.reason}")
        try:
            await transfer.store(self._client, file_path, data, exclusive=True, key=next_call_id())
        except Refusal as exc:
            return p.WriteResult(error=exc.message)
        return p.WriteResult(path=text.absolute(file_path, self._workdir))

    async def aedit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        key = next_call_id()
        try:
            reply = await self._client.call(
                "edit", path=file_path, old=old_string, new=new_string, replace_all=replace_all, key=key
            )
        except Refusal as exc:
            return p.EditResult(error=exc.message)
        return p.EditResult(path=text.absolute(file_path, self._workdir), occurrences=reply.get("occurrences", int))

    async def adelete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        try:
            await self._client.call("delete", path=file_path, key=next_call_id())
        except Refusal as exc:
            return p.DeleteResult(error=exc.message)
        return p.DeleteResult(path=text.absolute(file_path, self._workdir))

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol. Small files travel together; of a path that comes twice the later content stays."""
        return await transfer.upload_batch(self._client, files)

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol. A file over `transfer.DOWNLOAD_CAP` is an error: `download_stream` takes it."""
        return await transfer.download_batch(self._client, paths)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol. Cancelling it kills the command, unless it `leaves_commands`."""
        key = next_call_id() or secrets.token_hex(12)
        limit = float(timeout) if timeout is not None else EXECUTE_SECONDS
        try:
            reply = await self._client.call(
                "run", key=key, command=command, timeout=limit, merge=True, cap=OUTPUT_CAP, deadline=limit + EXECUTE_GRACE
            )
        except Refusal as exc:
            return p.ExecuteResponse(output=exc.message, exit_code=126)
        except asyncio.CancelledError:
            if not self.leaves_commands:
                await asyncio.shield(self._client.call("kill", key=key))
            raise
        return replies.execute_response(reply)

    # -- beyond the protocol

    async def start(self, spec: CommandSpec, *, call_id: str | None = None) -> Command:
        """See `Sandbox`."""
        key = call_id or secrets.token_hex(12)
        command = spec.command if isinstance(spec.command, str) else list(spec.command)
        try:
            await self._client.call(
                "start",
                key=key,
                command=command,
                cwd=spec.cwd,
                env=dict(spec.env),
                timeout=spec.timeout,
                stdin=spec.stdin,
                merge=spec.merge,
            )
        except Refusal as exc:
            raise ValueError(exc.message) from exc
        return ToolboxCommand(self._client, key)

    async def command(self, call_id: str) -> Command | None:
        """See `Sandbox`."""
        known = await self._client.call("known", key=call_id)
        return ToolboxCommand(self._client, call_id) if known.get("known", bool) else None

    async def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """See `Sandbox`."""
        try:
            async for piece in transfer.download(self._client, path):
                yield piece
        except Refusal as exc:
            raise replies.os_error(exc, path) from exc

    async def download_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
        """See `Sandbox`. One call for each mebibyte."""
        return await transfer.download_small(self._client, files)

    async def upload_stream(self, path: str, content: AsyncIterable[bytes], *, mode: int = 0o644) -> None:
        """See `Sandbox`."""
        try:
            await transfer.upload(self._client, path, content, mode=mode, exclusive=False, key=next_call_id())
        except Refusal as exc:
            raise replies.os_error(exc, path) from exc

    async def manifest(self, root: str, *, exclude: Sequence[str] = (), folders: bool = False) -> list[FileEntry]:
        """See `Sandbox`."""
        try:
            _, records = await asked_long(self._client, "manifest", path=root, exclude=list(exclude), folders=folders)
        except Refusal as exc:
            raise replies.os_error(exc, root) from exc
        return replies.parse_manifest(records)

    async def changes(
        self, root: str, base: Mapping[str, FileEntry], *, exclude: Sequence[str] = (), folders: bool = False
    ) -> Changed:
        """See `Sandbox`."""
        closed = self.closed_below(root)
        places = [f"{root.rstrip('/')}/{path}" for path in closed]
        try:
            reply, told = await asked_long(
                self._client, "changes", path=root, exclude=list(exclude), folders=folders, closed=places
            )
        except Refusal as exc:
            raise replies.os_error(exc, root) from exc
        if not reply.get("layer", bool):
            now = replies.parse_manifest(told)
            return await asyncio.to_thread(difference, base, now, folders=folders, closed=closed)
        size = reply.get("records", int)
        written, listings = replies.parse_manifest(told[:size]), replies.parse_listings(told[size:])
        return await asyncio.to_thread(layer_difference, base, written, listings, folders=folders, closed=closed)

    async def apply(
        self, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], *, call_id: str
    ) -> Applied:
        """See `Sandbox`."""
        try:
            return await applying.apply(self._client, root, check_edits(edits), contents, call_id)
        except Refusal as exc:
            raise replies.os_error(exc, root) from exc
