"""A stream socket on an event loop, with nothing between it and whoever it serves.

What comes is handed over at once, without a task to wake; what goes out is not copied. (asyncio's own transports, before Python
3.12, gather what the socket does not take in one buffer, and move all of it each time that the socket takes a part.)
"""

from __future__ import annotations

import asyncio
import collections
import socket
from collections.abc import Callable, Sequence

HIGH_WATER = 256 * 1024
"""Bytes that may wait before `drain` waits too."""
SEND_BUFFER = 1024 * 1024
"""Bytes that the socket itself is asked to hold."""
_RECEIVE = 256 * 1024
_VECTOR = 64
"""Parts that one system call sends; Linux takes up to 1024."""


class Link:
    """Owns a connected socket. Lives on the running loop.

    `received` gets what comes, as a view that is only good during the call. `ended` is called once, when the peer has closed
    (None) or the connection broke; not after `close`.
    """

    def __init__(
        self,
        sock: socket.socket,
        received: Callable[[memoryview], None],
        ended: Callable[[OSError | None], None],
        *,
        early: bytes = b"",
    ) -> None:
        self._sock = sock
        self._received = received
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_RECEIVE))
        self._waiting: collections.deque[memoryview] = collections.deque()
        self._size = 0
        self._finishing = False
        self._failure: OSError | None = None
        self._drained: list[asyncio.Future[None]] = []
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if early:
            self._loop.call_soon(received, memoryview(early))
        self._loop.add_reader(sock.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            count = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError as exc:
            self._end(exc)
            return
        if count:
            self._received(self._buffer[:count])
        else:
            self._end(None)

    def _end(self, failure: OSError | None) -> None:
        self.close()
        self._ended(failure)

    def send(self, parts: Sequence[bytes]) -> None:
        """Send the parts, after all that was sent before; what the socket does not take at once goes out by and by.

        Raises `OSError` when the connection is broken or closed.
        """
        if self._failure is not None:
            raise self._failure
        idle = not self._waiting
        self._waiting.extend(memoryview(part) for part in parts if part)
        self._size += sum(map(len, parts))
        if idle:
            self._push()
            if self._failure is not None:
                raise self._failure

    def finish(self) -> None:
        """Tell the peer, after all that was sent, that nothing more will come."""
        self._finishing = True
        if self._failure is None and not self._waiting:
            self._sock.shutdown(socket.SHUT_WR)

    def _push(self) -> None:
        """Give the socket as much as it takes."""
        try:
            while self._waiting:
                self._taken(self._sock.sendmsg(list(self._waiting)[:_VECTOR]))
            self._loop.remove_writer(self._sock.fileno())
            if self._finishing:
                self._sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            self._loop.add_writer(self._sock.fileno(), self._push)
        except OSError as exc:
            self._give_up(exc)
        if self._size <= HIGH_WATER:
            self._wake()

    def _taken(self, count: int) -> None:
        self._size -= count
        while count:
            part = self._waiting.popleft()
            if len(part) > count:
                self._waiting.appendleft(part[count:])
                return
            count -= len(part)

    def _give_up(self, failure: OSError) -> None:
        """Send nothing more. What the peer has sent may still come."""
        self._failure = failure
        self._waiting.clear()
        self._size = 0
        self._loop.remove_writer(self._sock.fileno())

    def _wake(self) -> None:
        waiting, self._drained = self._drained, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def drain(self) -> None:
        """Wait until little is left to send. Raises `OSError` when the connection broke meanwhile."""
        if self._size > HIGH_WATER:
            future = self._loop.create_future()
            self._drained.append(future)
            await future
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the socket; what was not sent yet is given up. A second time does nothing."""
        if self._sock.fileno() < 0:
            return
        self._loop.remove_reader(self._sock.fileno())
        self._give_up(ConnectionAbortedError("the connection is closed"))
        self._wake()
        self._sock.close()
