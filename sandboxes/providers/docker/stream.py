"""The engine's raw streams as asyncio streams: the frames of stdout and stderr taken apart."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from docker import APIClient

READ_LIMIT = 2 * 1024 * 1024
"""Bytes that wait for a reader before the engine is told to stop sending."""
STDERR_CAP = 64 * 1024
"""Bytes of stderr that are kept, the first ones."""
_HEADER = 8
_STDERR = 2
_PUMP = 256 * 1024


class Demultiplexer(asyncio.StreamReaderProtocol):
    """Reads the engine's frames (stream number, 3 zero bytes, length, payload): stdout to the reader, stderr aside."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.stderr = bytearray()
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket, however they are cut."""
        view = memoryview(data)
        while view:
            if not self._left:
                view = self._take_header(view)
                continue
            payload, view = view[: self._left], view[self._left :]
            self._left -= len(payload)
            if self._stream == _STDERR:
                self.stderr += payload[: max(0, STDERR_CAP - len(self.stderr))]
            else:
                super().data_received(bytes(payload))

    def _take_header(self, view: memoryview) -> memoryview:
        missing = _HEADER - len(self._header)
        self._header += view[:missing]
        if len(self._header) == _HEADER:
            self._stream, self._left = self._header[0], int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return view[missing:]


@dataclass(frozen=True)
class ExecStream:
    """A command in a container: write its stdin, read its stdout; what it said on stderr is in `stderr`."""

    exec_id: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: Demultiplexer

    @property
    def stderr(self) -> str:
        """The beginning of its stderr so far."""
        return bytes(self.protocol.stderr).decode("utf-8", "replace")

    async def aclose(self) -> None:
        """Close the stream; the command may go on."""
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


def start_exec(api: APIClient, container: str, argv: list[str]) -> tuple[str, socket.socket, bytes]:
    """Start a command with open stdin (blocking): its exec id, a connected socket, and bytes that had come already."""
    exec_id: str = api.exec_create(container, argv, stdin=True, stdout=True, stderr=True)["Id"]
    return (exec_id, *_plain(api.exec_start(exec_id, socket=True)))


def attach_output(api: APIClient, container: str) -> socket.socket:
    """A socket with the framed output of a container that has not been started yet (blocking)."""
    return _plain(api.attach_socket(container, params={"stdout": 1, "stderr": 1, "stream": 1}))[0]


def _plain(given: Any) -> tuple[socket.socket, bytes]:
    """A socket of our own from what the SDK hands out, and the bytes that came with the response's headers.

    For plain sockets that is a `SocketIO` whose HTTP response still owns the descriptor. Anything else (TLS, SSH) only
    promises `recv` and `sendall`.
    """
    raw = getattr(given, "_sock", None)
    if not isinstance(raw, socket.socket) or isinstance(raw, ssl.SSLSocket):
        return pumped(given), b""
    response = given._response
    own = raw.dup()
    raw.setblocking(False)
    early = response.raw._fp.fp.read1(READ_LIMIT) or b""
    response.close()
    given.close()
    return own, early


class BlockingStream(Protocol):
    """What every socket-like thing of the SDK can do."""

    def recv(self, size: int, /) -> bytes:
        """Bytes, or none at the end."""
        ...

    def sendall(self, data: bytes, /) -> object:
        """Send all of it."""
        ...

    def close(self) -> object:
        """Close it."""
        ...


def pumped(stream: BlockingStream) -> socket.socket:
    """A plain socket whose other end two threads connect to `stream`."""
    ours, theirs = socket.socketpair()

    def pump(source: BlockingStream, sink: BlockingStream) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(_PUMP):
                sink.sendall(data)
        # Either direction's end is the end: half-closing is not to be had on every stream.
        for end in (theirs, stream):
            with contextlib.suppress(OSError):
                if isinstance(end, socket.socket):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    for source, sink in ((stream, theirs), (theirs, stream)):
        threading.Thread(target=pump, args=(source, sink), name="fanfold-docker-pump", daemon=True).start()
    return ours


async def adopt(exec_id: str, sock: socket.socket, early: bytes) -> ExecStream:
    """The socket of an exec as asyncio streams on the running loop."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(READ_LIMIT)
    transport, protocol = await loop.create_connection(lambda: Demultiplexer(reader), sock=sock)
    if early:
        protocol.data_received(early)
    return ExecStream(exec_id, reader, asyncio.StreamWriter(transport, protocol, reader, loop), protocol)
