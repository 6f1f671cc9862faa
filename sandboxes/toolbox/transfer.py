"""Files through the toolbox, of any size: small ones many in a call, long ones in pieces with a few under way at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from typing import Any, TypeVar

from sandboxes.errors import ProtocolError, SandboxError
from sandboxes.protocol import FileDownloadResponse, FileUploadResponse
from sandboxes.toolbox import replies
from sandboxes.toolbox.calls import next_call_id
from sandboxes.toolbox.client import Refusal, Reply, ToolboxClient
from sandboxes.toolbox.helper import wire

WINDOW = 4
"""Pieces of one file that are sent at once."""
AHEAD = 8
"""Pieces of one file that are asked for at once, by the half of it: on some platforms what is asked together is one request."""
BATCH = 500
"""Files in one call."""
DOWNLOAD_CAP = 256 * 1024 * 1024
"""Bytes of all files together that `download_batch` holds in memory at most."""
ANSWER_CAP = 256 * 1024 * 1024
"""Bytes of a long answer at most: a manifest of about two million files."""
DROP_SECONDS = 5.0
"""How long the helper may take to give up a broken upload."""

T = TypeVar("T")


async def gather_all(tasks: Sequence[asyncio.Task[T]]) -> list[T]:
    """The results of tasks, in order. When one fails, or we are cancelled, none is left running."""
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def store(client: ToolboxClient, path: str, content: bytes, *, exclusive: bool, key: str | None) -> None:
    """Write a file whose content is in memory; `exclusive` refuses to overwrite. Raises `Refusal`."""
    if len(content) <= wire.PIECE:
        await client.call("put", content, path=path, exclusive=exclusive, key=key)
        return

    async def whole() -> AsyncIterator[bytes]:
        yield content

    await upload(client, path, whole(), mode=None, exclusive=exclusive, key=key)


async def upload(
    client: ToolboxClient, path: str, content: AsyncIterable[bytes], *, mode: int | None, exclusive: bool, key: str | None
) -> None:
    """Write a file from pieces; it appears, whole, when the last has arrived. Raises `Refusal`."""
    token = await send(client, path, content, mode=mode)
    await client.call("publish", token=token, exclusive=exclusive, key=key)


async def send(client: ToolboxClient, path: str | None, content: AsyncIterable[bytes], *, mode: int | None) -> str:
    """Send the content of a file that is to be at `path`, or of none; the token to go on with. Raises `Refusal`."""
    token = secrets.token_hex(12)

    async def send_piece(offset: int, data: bytes) -> Reply:
        return await client.call("piece", data, token=token, offset=offset)

    under_way: list[asyncio.Task[Reply]] = []
    offset = 0
    try:
        await client.call("begin", token=token, path=path, mode=mode)
        async for chunk in content:
            for at in range(0, len(chunk), wire.PIECE):
                data = chunk[at : at + wire.PIECE]
                under_way.append(asyncio.create_task(send_piece(offset, data)))
                offset += len(data)
                if len(under_way) >= WINDOW:
                    await under_way.pop(0)
        await gather_all(under_way)
    except BaseException:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        with contextlib.suppress(Refusal, SandboxError):
            await client.call("drop", token=token, deadline=DROP_SECONDS)
        raise
    return token


async def download(client: ToolboxClient, path: str) -> AsyncIterator[bytes]:
    """The content of a file in pieces. Raises `Refusal`."""

    async def get(offset: int) -> Reply:
        return await client.call("get", path=path, offset=offset, length=wire.PIECE)

    first = await get(0)
    yield first.payload
    size = first.get("size", int)
    offsets = iter(range(wire.PIECE, size, wire.PIECE))
    ahead = [asyncio.create_task(get(at)) for at in itertools.islice(offsets, AHEAD)]
    try:
        while ahead:
            piece = await ahead.pop(0)
            if len(ahead) <= AHEAD // 2:
                ahead += [asyncio.create_task(get(at)) for at in itertools.islice(offsets, AHEAD - len(ahead))]
            if not piece.payload:
                return
            yield piece.payload
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)


async def asked_long(client: ToolboxClient, op: str, **fields: Any) -> tuple[Reply, bytes]:
    """The answer to a question that may be long, and its content, which then comes through a file. Raises `Refusal`."""
    reply = await client.call(op, deadline=None, **fields)
    spilled = reply.maybe("file", str)
    if spilled is None:
        return reply, reply.payload
    size = reply.get("size", int)
    if size > ANSWER_CAP:
        raise ProtocolError(f"the sandbox's helper answered '{op}' with more than {ANSWER_CAP} bytes")
    content = bytearray()
    async for piece in download(client, spilled):
        content += piece
        if len(content) > size or (len(piece) < wire.PIECE and len(content) < size):
            raise ProtocolError(f"the sandbox's helper announced an answer of {size} bytes to '{op}', and sent others")
    await client.call("delete", path=spilled)
    return reply, bytes(content)


async def upload_batch(client: ToolboxClient, files: Sequence[tuple[str, bytes]]) -> list[FileUploadResponse]:
    """Write files, overwriting, in order; each has an outcome of its own."""
    outcomes: list[FileUploadResponse] = []
    for batch in _batches(files):
        if len(batch[0][1]) > wire.PIECE:
            outcomes.append(await _upload_long(client, *batch[0]))
            continue
        described = [{"path": path, "size": len(content), "key": next_call_id()} for path, content in batch]
        reply = await client.call("puts", b"".join(content for _, content in batch), files=described)
        for (path, _), outcome in zip(batch, _outcomes(reply, len(batch)), strict=True):
            refused = None if outcome is None else replies.file_error(_refusal(outcome))
            outcomes.append(FileUploadResponse(path, error=refused))
    return outcomes


def _batches(files: Sequence[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Consecutive files that fit into one call; a long one is alone."""
    batch: list[tuple[str, bytes]] = []
    room = wire.PIECE
    for path, content in files:
        if batch and (len(content) > room or len(batch) == BATCH):
            yield batch
            batch, room = [], wire.PIECE
        batch.append((path, content))
        room -= len(content)
    if batch:
        yield batch


async def _upload_long(client: ToolboxClient, path: str, content: bytes) -> FileUploadResponse:
    try:
        await store(client, path, content, exclusive=False, key=next_call_id())
    except Refusal as exc:
        return FileUploadResponse(path, error=replies.file_error(exc))
    return FileUploadResponse(path)


async def download_batch(client: ToolboxClient, paths: Sequence[str]) -> list[FileDownloadResponse]:
    """Read files whole, in order; each has an outcome of its own."""
    outcomes: list[FileDownloadResponse] = []
    room = DOWNLOAD_CAP
    while len(outcomes) < len(paths):
        batch = paths[len(outcomes) : len(outcomes) + BATCH]
        reply = await client.call("gets", paths=list(batch))
        came = list(_contents(reply, len(batch)))
        outcomes += [_downloaded(path, content) for path, content in zip(batch, came, strict=False)]
        room -= len(reply.payload)
        if len(came) < len(batch):
            path = batch[len(came)]
            outcomes.append(_downloaded(path, await _download_long(client, path, room)))
            room -= len(outcomes[-1].content or b"")
    return outcomes


def _downloaded(path: str, content: bytes | Refusal | None) -> FileDownloadResponse:
    if isinstance(content, Refusal):
        return FileDownloadResponse(path, error=replies.file_error(content))
    if content is None:
        too_much = f"Error: '{path}' is too large: a download in memory has room for {DOWNLOAD_CAP} bytes in all"
        return FileDownloadResponse(path, error=too_much)
    return FileDownloadResponse(path, content=content)


async def download_small(client: ToolboxClient, files: Sequence[tuple[str, int]]) -> list[bytes | OSError | None]:
    """Read files of at most so many bytes each, in order. Whatever comes, no more than that is kept of any."""
    outcomes: list[bytes | OSError | None] = []
    while len(outcomes) < len(files):
        batch = files[len(outcomes) : len(outcomes) + BATCH]
        reply = await client.call("gets", paths=[path for path, _ in batch])
        came: list[bytes | Refusal | None] = [*_contents(reply, len(batch))]
        if not came:
            came.append(await _download_long(client, *batch[0]))
        for (path, size), content in zip(batch, came, strict=False):
            if isinstance(content, Refusal):
                outcomes.append(replies.os_error(content, path))
            else:
                outcomes.append(content if content is not None and len(content) <= size else None)
    return outcomes


def _contents(reply: Reply, count: int) -> Iterator[bytes | Refusal]:
    """The contents of the first of `count` files, as many as there are outcomes."""
    at = 0
    for outcome in _outcomes(reply)[:count]:
        match outcome:
            case [int(size)] if not isinstance(size, bool):
                if not 0 <= size <= len(reply.payload) - at:
                    raise ProtocolError(f"the sandbox's helper announced a file of {size} bytes, and did not send it")
                yield reply.payload[at : at + size]
                at += size
            case _:
                yield _refusal(outcome)


async def _download_long(client: ToolboxClient, path: str, room: int) -> bytes | Refusal | None:
    """The content of one file; None when it has more than `room` bytes."""
    content = bytearray()
    try:
        async for piece in download(client, path):
            content += piece
            if len(content) > room:
                return None
    except Refusal as exc:
        return exc
    return bytes(content)


def _outcomes(reply: Reply, count: int | None = None) -> list[object]:
    outcomes = reply.get("outcomes", list)
    if count is not None and len(outcomes) != count:
        raise ProtocolError(f"the sandbox's helper answered {len(outcomes)} outcomes for {count} files")
    return outcomes


def _refusal(outcome: object) -> Refusal:
    if not isinstance(outcome, list) or len(outcome) != 2:
        raise ProtocolError(f"the sandbox's helper sent {outcome!r:.80} as the outcome of a file")
    return Refusal(str(outcome[0]), str(outcome[1]))
