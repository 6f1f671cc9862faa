"""A command in a sandbox as one socket: what is written to it is the command's stdin, what comes from it is its stdout.

The SDK carries stdin in requests with an offset, and stdout as one stream with an offset: both are taken up again by itself
where a connection breaks, so that a lost connection is not seen here unless it lasts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

from modal.exception import Error

from sandboxes.providers.modal.exec import read
from sandboxes.providers.modal.platform import Process

INPUT: Final = 4 * 1024 * 1024
"""Bytes of input that go in one request at most; what has gathered meanwhile goes together."""
LOOKS: Final = 3
"""How often the loop goes round before an empty socket counts as empty: its writer, on the same loop, gets a turn."""
CLOSE_SECONDS: Final = 2.0
"""How long a command may take to end after its stdin was closed."""
SAID: Final = 500
"""Bytes of a complaint that are told."""
_RECEIVE: Final = 256 * 1024
_BROKEN = (Error, OSError, EOFError)


class ExecStream:
    """`sock` is the caller's end, to be closed by the caller."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.sock, self._inner = socket.socketpair()
        self._inner.setblocking(False)
        self._tasks = [asyncio.create_task(self._carry_input()), asyncio.create_task(self._carry_output())]

    async def _carry_input(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._inner, _RECEIVE):
                self._process.stdin.write(await self._gathered(data))
                await self._process.stdin.drain.aio()
            self._process.stdin.write_eof()
            await self._process.stdin.drain.aio()
        except _BROKEN:
            # What waits for an answer would wait for ever.
            with contextlib.suppress(OSError):
                self._inner.shutdown(socket.SHUT_RDWR)

    async def _gathered(self, first: bytes) -> bytearray:
        """It, with what has come meanwhile, and what the caller has ready and the socket had no room for."""
        found, looks = bytearray(first), LOOKS
        with contextlib.suppress(ConnectionError):
            while looks and len(found) < INPUT:
                try:
                    if not (data := self._inner.recv(min(_RECEIVE, INPUT - len(found)))):
                        break
                    found += data
                    looks = LOOKS
                except BlockingIOError:
                    looks -= 1
                await asyncio.sleep(0)
        return found

    async def _carry_output(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(*_BROKEN):
            async for data in self._process.stdout:
                await loop.sock_sendall(self._inner, data)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)

    async def complaint(self) -> str:
        """The beginning of what the command has said on stderr, when it has ended."""
        with contextlib.suppress(TimeoutError, *_BROKEN):
            async with asyncio.timeout(CLOSE_SECONDS):
                said = await read(self._process.stderr, SAID)
                return bytes(said[:SAID]).decode("utf-8", "replace").strip()
        return ""

    async def aclose(self) -> None:
        """Let go of the command, after the caller has closed `sock`: it ends with its stdin."""
        await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._inner.close()
