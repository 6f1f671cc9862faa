"""The engine's raw streams: a plain socket for each, and the frames of stdout and stderr taken apart."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from docker import APIClient

from sandboxes.errors import SandboxGone

EARLY = 2 * 1024 * 1024
"""Bytes that may have come with the response's headers."""
STDERR_CAP = 64 * 1024
"""Bytes of stderr that are kept, the first ones."""
_HEADER = 8
_STDERR = 2
_PUMP = 256 * 1024


class Demultiplexer:
    """Takes the engine's frames apart (stream number, 3 zero bytes, length, payload): stdout goes on, stderr aside.

    With `ends_by_stderr`, whatever comes there means that the other side has closed: `SandboxGone`.
    """

    def __init__(self, *, ends_by_stderr: bool = False) -> None:
        self._ends_by_stderr = ends_by_stderr
        self._errors = bytearray()
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    @property
    def stderr(self) -> str:
        """The beginning of what was said there."""
        return bytes(self._errors).decode("utf-8", "replace")

    def stdout(self, view: memoryview) -> Iterator[memoryview]:
        """The pieces of stdout in what came from the socket, however it was cut."""
        while view:
            if not self._left:
                view = self._take_header(view)
                continue
            payload, view = view[: self._left], view[self._left :]
            self._left -= len(payload)
            if self._stream == _STDERR:
                if self._ends_by_stderr:
                    raise SandboxGone("the sandbox's helper closed the connection")
                self._errors += payload[: max(0, STDERR_CAP - len(self._errors))]
            else:
                yield payload

    def _take_header(self, view: memoryview) -> memoryview:
        missing = _HEADER - len(self._header)
        self._header += view[:missing]
        if len(self._header) == _HEADER:
            self._stream, self._left = self._header[0], int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return view[missing:]


@dataclass(frozen=True)
class ExecStream:
    """A command in a container: what is written to `sock` is its stdin, what comes (`early` first) is its framed output."""

    exec_id: str
    sock: socket.socket
    early: bytes


def start_exec(api: APIClient, container: str, argv: list[str]) -> ExecStream:
    """Start a command with open stdin (blocking)."""
    exec_id: str = api.exec_create(container, argv, stdin=True, stdout=True, stderr=True)["Id"]
    return ExecStream(exec_id, *_plain(api.exec_start(exec_id, socket=True)))


def attach_stdio(api: APIClient, container: str) -> socket.socket:
    """A socket to a container that has not been started yet: what is written is its stdin, what comes its framed output."""
    return _plain(api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}))[0]


class FirstLines:
    """Sockets to helpers that wait for their first clients, by sandbox. Used by many threads."""

    def __init__(self) -> None:
        self._lines: dict[str, socket.socket] = {}

    def keep(self, sandbox_id: str, line: socket.socket) -> None:
        """Keep a line until it is taken or dropped."""
        self._lines[sandbox_id] = line

    def take(self, sandbox_id: str) -> socket.socket | None:
        """The line, which is the caller's from now on; None when it has been used, or is somebody else's."""
        return self._lines.pop(sandbox_id, None)

    def drop(self, sandbox_id: str) -> None:
        """Close the line of a sandbox that goes."""
        if line := self.take(sandbox_id):
            line.close()

    def close(self) -> None:
        """Close all that nobody has taken."""
        for sandbox_id in list(self._lines):
            self.drop(sandbox_id)


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
    early = response.raw._fp.fp.read1(EARLY) or b""
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
    ended = itertools.count(1)

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
        # Under TLS the response holds the connection, too; the other thread may still be about to read from it.
        if next(ended) == 2 and (response := getattr(stream, "_response", None)) is not None:
            response.close()

    for source, sink in ((stream, theirs), (theirs, stream)):
        threading.Thread(target=pump, args=(source, sink), name="fanfold-docker-pump", daemon=True).start()
    return ours
