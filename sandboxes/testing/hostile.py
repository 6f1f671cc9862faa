"""Helpers that attack their client: what a sandbox that was taken over may send to whoever is attached to it.

    async with attacked_by(endless_header) as sock:
        with pytest.raises(SandboxError):
            await connect(sock, deadline=5)

A behaviour is a coroutine function over the helper's end of the stream. `after_hello` greets properly first; `answering`
greets and then gives one and the same answer to every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sandboxes.toolbox.helper import wire

Behaviour = Callable[[StreamReader, StreamWriter], Awaitable[None]]

CHUNK = 64 * 1024
"""Bytes that an endless behaviour sends at a time."""
DEPTH = 200_000
"""Levels of the JSON that is too deep for any parser."""


@asynccontextmanager
async def attacked_by(behaviour: Behaviour) -> AsyncIterator[socket.socket]:
    """The client's end of a stream socket, at whose other end `behaviour` runs until the block is left."""
    ours, theirs = socket.socketpair()
    their_reader, their_writer = await asyncio.open_connection(sock=theirs)
    attack = asyncio.create_task(_until_cut_off(behaviour, their_reader, their_writer))
    try:
        yield ours
    finally:
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)
        ours.close()
        their_writer.close()
        with contextlib.suppress(OSError):
            await their_writer.wait_closed()


async def _until_cut_off(behaviour: Behaviour, reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await behaviour(reader, writer)


# -- pieces


async def receive(reader: StreamReader) -> tuple[dict[str, Any], bytes]:
    """The client's next request: header and payload."""
    header, payload = wire.lengths(await reader.readexactly(wire.PREFIX))
    return wire.decode(await reader.readexactly(header)), await reader.readexactly(payload)


async def send(writer: StreamWriter, header: Mapping[str, Any], payload: bytes = b"") -> None:
    """A well-formed frame."""
    writer.writelines(wire.encode(dict(header), payload))
    await writer.drain()


async def send_raw(writer: StreamWriter, header: bytes, payload: bytes = b"") -> None:
    """A frame with true lengths around whatever bytes."""
    writer.write(struct.pack(">II", len(header), len(payload)) + header + payload)
    await writer.drain()


async def greet(reader: StreamReader, writer: StreamWriter) -> None:
    """Answer the client's hello as an honest helper does."""
    hello, _ = await receive(reader)
    ok = {"protocol": wire.PROTOCOL, "boot": "0" * 16, "python": "3.11.0", "workdir": "/workspace"}
    await send(writer, {"id": hello["id"], "ok": ok})


def after_hello(behaviour: Behaviour) -> Behaviour:
    """Greet properly, wait for the next request, then misbehave."""

    async def behave(reader: StreamReader, writer: StreamWriter) -> None:
        await greet(reader, writer)
        await receive(reader)
        await behaviour(reader, writer)

    return behave


def answering(ok: object, payload: bytes = b"") -> Behaviour:
    """Greet properly, then answer every request with this."""

    async def behave(reader: StreamReader, writer: StreamWriter) -> None:
        await greet(reader, writer)
        while True:
            request, _ = await receive(reader)
            if request.get("op") != "cancel":
                await send(writer, {"id": request["id"], "ok": ok}, payload)

    return behave


def replying(header: bytes) -> Behaviour:
    """Send one frame with these bytes as its header, then stay silent."""

    async def behave(reader: StreamReader, writer: StreamWriter) -> None:
        await send_raw(writer, header)
        await silent(reader, writer)

    return behave


# -- behaviours


async def silent(reader: StreamReader, _writer: StreamWriter) -> None:
    """Take everything, say nothing."""
    while await reader.read(CHUNK):
        pass


async def deaf(_reader: StreamReader, _writer: StreamWriter) -> None:
    """Take nothing, say nothing."""
    await asyncio.get_running_loop().create_future()


async def closing(_reader: StreamReader, writer: StreamWriter) -> None:
    """Hang up."""
    writer.close()


async def garbage(_reader: StreamReader, writer: StreamWriter) -> None:
    """Random bytes without end."""
    while True:
        writer.write(os.urandom(CHUNK))
        await writer.drain()


async def zeros(_reader: StreamReader, writer: StreamWriter) -> None:
    """Frames of no length without end."""
    while True:
        writer.write(bytes(CHUNK))
        await writer.drain()


async def huge_lengths(reader: StreamReader, writer: StreamWriter) -> None:
    """Announce a frame of 8 GiB."""
    writer.write(b"\xff" * wire.PREFIX)
    await silent(reader, writer)


async def huge_payload(reader: StreamReader, writer: StreamWriter) -> None:
    """Announce a payload longer than the protocol allows."""
    writer.write(struct.pack(">II", 2, wire.PAYLOAD_CAP + 1) + b"{}")
    await silent(reader, writer)


async def endless_header(_reader: StreamReader, writer: StreamWriter) -> None:
    """Announce the longest header of all, and go on sending it for ever."""
    writer.write(struct.pack(">II", wire.HEADER_CAP, 0))
    while True:
        writer.write(b'{"id":1,' * (CHUNK // 8))
        await writer.drain()


async def half_a_frame(reader: StreamReader, writer: StreamWriter) -> None:
    """Begin a frame, and stop."""
    writer.write(struct.pack(">II", 64, 0) + b'{"id":1,"ok":')
    await silent(reader, writer)


async def half_a_prefix(reader: StreamReader, writer: StreamWriter) -> None:
    """Begin the lengths of a frame, and stop."""
    writer.write(b"\0\0\0")
    await silent(reader, writer)


async def cut_off(_reader: StreamReader, writer: StreamWriter) -> None:
    """Begin a frame, and hang up."""
    writer.write(struct.pack(">II", 64, 0) + b'{"id":1,"ok":')
    await writer.drain()
    writer.close()


async def unasked(_reader: StreamReader, writer: StreamWriter) -> None:
    """Answer calls that nobody made, without end."""
    number = 1_000_000
    while True:
        await send(writer, {"id": number, "ok": {}})
        number += 1


async def twice(reader: StreamReader, writer: StreamWriter) -> None:
    """Answer each call, and answer it again."""
    while True:
        request, _ = await receive(reader)
        for _ in range(2):
            await send(writer, {"id": request["id"], "ok": {"protocol": wire.PROTOCOL, "entries": []}})


async def wrong_protocol(reader: StreamReader, writer: StreamWriter) -> None:
    """Greet with the number of another protocol."""
    hello, _ = await receive(reader)
    await send(writer, {"id": hello["id"], "ok": {"protocol": wire.PROTOCOL + 1}})
    await silent(reader, writer)


async def refusing(reader: StreamReader, writer: StreamWriter) -> None:
    """Refuse the greeting with a message as long as a frame may be."""
    hello, _ = await receive(reader)
    await send(writer, {"id": hello["id"], "error": "protocol", "message": "no " * (wire.REPLY_CAP // 4)})
    await silent(reader, writer)


NONSENSE: dict[str, bytes] = {
    "not-json": b"}{",
    "empty-object": b"{}",
    "a-list": b"[1, 2]",
    "a-number": b"42",
    "null": b"null",
    "invalid-utf-8": b'{"id":"\xff\xfe"}',
    "lone-surrogate": b'{"id":1,"ok":"\\ud800"}',
    "too-deep": b'{"id":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "too-deep-unclosed": b'{"id":' + b'{"a":' * DEPTH,
    "endless-number": b'{"id":' + b"9" * 1_000_000 + b"}",
    "infinite-id": b'{"id":1e999,"ok":{}}',
    "text-id": b'{"id":"1","ok":{}}',
    "list-id": b'{"id":[1],"ok":{}}',
    "true-id": b'{"id":true,"ok":[]}',
    "negative-id": b'{"id":-1,"ok":{}}',
    "ok-is-a-list": b'{"id":1,"ok":[]}',
    "ok-is-null": b'{"id":1,"ok":null}',
    "neither": b'{"id":1}',
    "null-bytes": b'{"id":1,"ok":{}}' + bytes(1000),
}
"""Headers that no honest helper sends."""

ATTACKS: dict[str, Behaviour] = {
    "silent": silent,
    "deaf": deaf,
    "closing": closing,
    "garbage": garbage,
    "zeros": zeros,
    "huge-lengths": huge_lengths,
    "huge-payload": huge_payload,
    "endless-header": endless_header,
    "half-a-frame": half_a_frame,
    "half-a-prefix": half_a_prefix,
    "cut-off": cut_off,
    "unasked": unasked,
    **{f"header-{name}": replying(header) for name, header in NONSENSE.items()},
}
"""Behaviours that no client may take for an answer, at any moment of a connection."""
