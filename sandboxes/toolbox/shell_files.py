"""Files over plain exec: batches and pieces of them, as answers of the scripts in `scripts/`."""

from __future__ import annotations

import asyncio
import hashlib
import io
import itertools
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandboxes.errors import ProtocolError
from sandboxes.toolbox.helper import files, text
from sandboxes.toolbox.shell_wire import Channel, Status, body, found, records, refusal, word

WINDOW: Final = 4 * 1024 * 1024
"""Bytes of a file that move in one script."""
SMALL: Final = 1024 * 1024
"""Bytes up to which a file is fetched together with others."""
BATCH: Final = 64
"""Files of one script."""
BATCH_BYTES: Final = 16 * 1024 * 1024
"""Contents of one script that writes several files."""
EDIT_ATTEMPTS: Final = 5
"""How often an edit begins again, because the file was changed between reading and writing it."""
_PIECE = 1024 * 1024
_NO_KEY = "-"
_END = b"\nZ\n"


def journal_key(call_id: str | None) -> str:
    """A call id as a file name."""
    return _NO_KEY if call_id is None else hashlib.sha256(call_id.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@dataclass(frozen=True)
class Put:
    """One file to write. `path` is absolute."""

    path: str
    content: bytes
    exclusive: bool = False
    key: str | None = None
    expected: str = "-"
    """`Status.identity` that the file must still have."""
    note: str = "-"
    """A word that is kept with the answer."""


class ShellFiles:
    """File operations on checked, absolute paths. They raise `text.Refused`, or `SandboxError`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def ls(self, path: str) -> list[dict[str, Any]]:
        """Entries of a directory, sorted by path."""
        answer = await self._channel.call("list", args=(word(path),))
        try:
            listing = body(answer, path)
        except text.Refused as exc:
            if exc.code == "file_not_found":
                raise text.Refused(exc.code, f"Error: Directory '{path}' not found") from exc
            raise
        entries = dict(records(listing))
        start = 0 if listing.startswith(b"///\n") else listing.rfind(b"\n///\n") + 1
        entries.update(records(listing[start + 4 :]))
        described = [files.describe(name, status) for name, status in entries.items()]
        return sorted(described, key=lambda entry: str(entry["path"]))

    async def get(self, path: str, offset: int, length: int, key: str | None = None) -> tuple[Status, bytes]:
        """A file's status and a range of its bytes."""
        status, content, _ = await self._get(path, offset, length, key)
        return status, content

    async def _get(self, path: str, offset: int, length: int, key: str | None) -> tuple[Status, bytes, str | None]:
        args = (word(path), offset, length, journal_key(key))
        answer = await self._channel.call("get", args=args, cap=length)
        line, _, content = answer.partition(b"\n")
        if line.startswith(b"ok "):
            return Status(0, 0, 0), b"", line[3:].decode("ascii", "replace")
        return found(line, path), content, None

    async def read(self, path: str, offset: int, limit: int, byte_offset: int | None) -> dict[str, Any]:
        """A window of a file; see `text.read_window`."""
        status, content = await self.get(path, 0, WINDOW)
        if status.size <= len(content):
            result: dict[str, Any] = text.read_window(
                io.BytesIO(content), status.size, offset, limit, byte_offset, path=path
            )
        else:
            stream = _RemoteFile(self, path, status.size, asyncio.get_running_loop())
            result = await asyncio.to_thread(
                text.read_window, stream, status.size, offset, limit, byte_offset, path=path
            )
        result["modified_at"] = files.iso(status.modified)
        return result

    async def store(self, puts: Sequence[Put]) -> list[str | Exception]:
        """Write files in this order; for each its note, or why it was not written."""
        outcomes: list[str | Exception] = []
        for batch in _batches(puts):
            outcomes += await self._store(batch)
        return outcomes

    async def _store(self, puts: Sequence[Put]) -> list[str | Exception]:
        sizes = [len(put.content) for put in puts]
        # The head's length is part of the offsets in it: they have a fixed width.
        head = _head(puts, [0] * len(puts))
        starts = itertools.accumulate(sizes[:-1], initial=len(head))
        head = _head(puts, list(starts))
        stdin = b"".join([head, *(put.content for put in puts)])
        answer = await self._channel.call("put", "store", args=(len(stdin), len(head)), stdin=stdin)
        lines = answer.split(b"\n")[:-1]
        if len(lines) == 1 and lines[0].startswith(b"AE "):
            return [refusal(lines[0][1:], put.path) for put in puts]
        if len(lines) != len(puts):
            raise ProtocolError(f"a script in the sandbox gave {len(lines)} answers for {len(puts)} files")
        return [_outcome(line, put) for line, put in zip(lines, puts, strict=True)]

    async def put(self, put: Put) -> str:
        """Write one file; its note."""
        [outcome] = await self.store([put])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def edit(self, path: str, old: str, new: str, replace_all: bool, key: str | None) -> int:
        """Replace a string in a UTF-8 text file; how often it was there."""
        try:
            return await self._edit(path, old, new, replace_all, key)
        except text.Refused as exc:
            if key is None:
                raise
            # A refusal is a result too: the call that is repeated is refused again.
            answer = await self._channel.call("refuse", args=(journal_key(key), exc.code, word(exc.message)))
            raise refusal(answer.rstrip(b"\n"), path) from exc

    async def _edit(self, path: str, old: str, new: str, replace_all: bool, key: str | None) -> int:
        for _ in range(EDIT_ATTEMPTS):
            status, data, done = await self._get(path, 0, text.SCAN_CAP, key)
            if done is not None:
                return int(done)
            if status.size > text.SCAN_CAP:
                raise text.Refused("invalid_argument", f"Error: '{path}' is too large to edit")
            try:
                content = data.decode("utf-8")
            except UnicodeDecodeError:
                message = f"Error: '{path}' is not UTF-8 text: it cannot be edited"
                raise text.Refused("invalid_argument", message) from None
            changed, count = text.replace(content, old, new, replace_all, path)
            fresh = changed.encode("utf-8", "surrogateescape")
            try:
                return int(await self.put(Put(path, fresh, key=key, expected=status.identity, note=str(count))))
            except _ChangedMeanwhileError:
                continue
        raise text.Refused("io_error", f"Error: '{path}' is changed by others all the time: it was not edited")

    async def delete(self, path: str, key: str | None) -> None:
        """Delete a file, a link or a tree."""
        if path == "/":
            raise text.Refused("permission_denied", "Error: '/' cannot be deleted")
        answer = await self._channel.call("delete", args=(word(path), journal_key(key)))
        body(answer, path)

    async def fetch(self, paths: Sequence[str], cap: int, *, only_text: bool = False) -> list[bytes | Exception]:
        """Whole files of at most `cap` bytes, or why not; with `only_text` long binary ones are left empty."""
        outcomes: list[bytes | Exception] = []
        for at in range(0, len(paths), BATCH):
            batch = paths[at : at + BATCH]
            got = await self._fetch(batch, SMALL)
            for path in batch[len(got) :]:
                got.append(await self._whole(path, cap, only_text))
            for path, one in zip(batch, got, strict=True):
                outcomes.append(await self._whole(path, cap, only_text) if one is None else one)
        return outcomes

    async def fetch_small(self, files: Sequence[tuple[str, int]]) -> list[bytes | Exception | None]:
        """At most `BATCH` files of at most so many bytes each (no more than `SMALL`), or why not; None where one has more.

        Short when a file changed under it.
        """
        got = await self._fetch([path for path, _ in files], max(size for _, size in files))
        sizes = (size for _, size in files)
        return [None if isinstance(one, bytes) and len(one) > size else one for one, size in zip(got, sizes, strict=False)]

    async def _fetch(self, paths: Sequence[str], limit: int) -> list[bytes | Exception | None]:
        """One script for many: None where a file has more than `limit` bytes. Short when a file changed under it."""
        stdin = "".join(f"{word(path)}\n" for path in paths).encode()
        answer = await self._channel.call("fetch", args=(len(stdin), limit), stdin=stdin, cap=len(paths) * limit)
        got: list[bytes | Exception | None] = []
        at = 0
        for path in paths:
            line_end = answer.find(b"\n", at)
            if line_end < 0:
                break
            line, at = answer[at:line_end], line_end + 1
            if line.startswith(b"E "):
                got.append(refusal(line, path))
                continue
            size = found(line, path).size
            content = answer[at : at + size] if size <= limit else b""
            if answer[at + len(content) : at + len(content) + len(_END)] != _END:
                break
            at += len(content) + len(_END)
            got.append(content if size <= limit else None)
        return got

    async def _whole(self, path: str, cap: int, only_text: bool) -> bytes | Exception:
        content = bytearray()
        try:
            async for piece in self.download(path):
                if only_text and not content and text.is_binary(piece[: text.SNIFF]):
                    return b""
                content += piece
                if len(content) > cap:
                    return text_refused("invalid_argument", f"Error: '{path}' has more than {cap} bytes")
        except text.Refused as exc:
            return text_refused(exc.code, exc.message)
        return bytes(content)

    async def download(self, path: str) -> AsyncIterator[bytes]:
        """The content of a file in pieces."""
        offset, size = 0, 1
        while offset < size:
            status, content = await self.get(path, offset, WINDOW)
            size = status.size if offset == 0 else size
            for at in range(0, len(content), _PIECE):
                yield content[at : at + _PIECE]
            offset += len(content)
            if not content:
                return

    async def upload(self, path: str, content: AsyncIterable[bytes], mode: int, key: str | None) -> None:
        """Write a file from pieces; it appears, whole, when the last has arrived."""
        token, size, kept = secrets.token_hex(12), 0, bytearray()
        try:
            await self._piece(path, token, b"", 0)
            async for chunk in content:
                kept += chunk
                while len(kept) >= WINDOW:
                    size = await self._piece(path, token, bytes(kept[:WINDOW]), size)
                    del kept[:WINDOW]
            size = await self._piece(path, token, bytes(kept), size)
        except BaseException:
            await asyncio.shield(self._publish(path, token, "-", 0, None))
            raise
        body(await self._publish(path, token, size, mode, key), path)

    async def _piece(self, path: str, token: str, data: bytes, before: int) -> int:
        answer = await self._channel.call("put", "piece", args=(word(path), token, len(data)), stdin=data)
        body(answer, path, b"ok %d" % (before + len(data)))
        return before + len(data)

    async def _publish(self, path: str, token: str, size: int | str, mode: int, key: str | None) -> bytes:
        args = (word(path), token, size, f"{mode:o}", journal_key(key))
        return await self._channel.call("put", "publish", args=args)


def text_refused(code: str, message: str) -> Exception:
    """A refusal as a value."""
    made: Exception = text.Refused(code, message)
    return made


class _ChangedMeanwhileError(Exception):
    """The file is not the one that was read."""


def _outcome(line: bytes, put: Put) -> str | Exception:
    if line == b"E changed":
        return _ChangedMeanwhileError()
    return line[3:].decode("ascii", "replace") if line.startswith(b"ok ") else refusal(line, put.path)


def _head(puts: Sequence[Put], starts: Sequence[int]) -> bytes:
    """The lines about files that `scripts/store.sh` reads."""
    lines = []
    for put, start in zip(puts, starts, strict=True):
        fields = (word(put.path), f"{start:12d}", len(put.content), "-", int(put.exclusive), journal_key(put.key))
        lines.append(" ".join(map(str, (*fields, put.expected, put.note))) + "\n")
    return "".join(lines).encode()


def _batches(puts: Sequence[Put]) -> list[list[Put]]:
    batches: list[list[Put]] = []
    room = 0
    for put in puts:
        if not batches or len(batches[-1]) >= BATCH or room < len(put.content):
            batches.append([])
            room = BATCH_BYTES
        batches[-1].append(put)
        room -= len(put.content)
    return batches


class _RemoteFile:
    """A long file for `text.read_window`, which reads in a thread while the windows come over `loop`."""

    def __init__(self, owner: ShellFiles, path: str, size: int, loop: asyncio.AbstractEventLoop) -> None:
        self._owner, self._path, self._size, self._loop = owner, path, size, loop
        self._at = 0
        self._start, self._window = 0, b""

    def seek(self, position: int) -> None:
        """Go to a byte."""
        self._at = position

    def read(self, size: int = -1) -> bytes:
        """Bytes from here, as many as asked for while there are any."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        parts = []
        while self._at < end:
            if not self._start <= self._at < self._start + len(self._window):
                self._load()
            piece = self._window[self._at - self._start : end - self._start]
            if not piece:
                break
            parts.append(piece)
            self._at += len(piece)
        return b"".join(parts)

    def _load(self) -> None:
        coming = asyncio.run_coroutine_threadsafe(self._owner.get(self._path, self._at, WINDOW), self._loop)
        self._start = self._at
        self._window = coming.result()[1]
