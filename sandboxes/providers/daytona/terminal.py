"""A stream to the helper over a terminal of the sandbox: the one thing of Daytona that goes both ways on one connection."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from typing import Final

from daytona import AsyncSandbox, PtySize
from daytona.handle.async_pty_handle import AsyncPtyHandle

from sandboxes.errors import SandboxGone, SandboxTimeout
from sandboxes.toolbox.helper.terminal import ACKNOWLEDGED, KEEPALIVE, word

PIECE: Final = 32 * 1024
"""Bytes of one message to the terminal; the platform ends a connection with messages over 64 KiB."""
ACKNOWLEDGE: Final = 64 * 1024
"""Bytes after which the helper is told that they have come."""
BEFORE_CAP: Final = 64 * 1024
"""Bytes that the shell may say before the helper does."""
CLOSE_SECONDS: Final = 5.0
SIZE: Final = PtySize(rows=24, cols=900)
"""Wide enough that a shell does not break the line that we type."""


class TerminalLink:
    """Carries bytes between a terminal and one end of a socket pair, whose other end is the caller's."""

    def __init__(self, connect: str) -> None:
        self._halves = (secrets.token_hex(8), secrets.token_hex(8))
        self._mark = "".join(self._halves).encode()
        self._typed = f" exec {connect} --terminal {' '.join(self._halves)}\n".encode()
        self._before = b""
        self._ready: asyncio.Event = asyncio.Event()
        self._untold = 0
        self._theirs: socket.socket
        self._handle: AsyncPtyHandle
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, sandbox: AsyncSandbox, seconds: float) -> socket.socket:
        """Connect, within `seconds`. Raises `SandboxGone` when the helper is not there, `SandboxTimeout`, or the SDK's."""
        ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        try:
            self._handle = await sandbox.process.create_pty_session(
                f"fanfold-{secrets.token_hex(6)}", self._received, pty_size=SIZE
            )
            self._tasks = [asyncio.create_task(self._until_it_ends())]
            await self._handle.send_input(self._typed)
            async with asyncio.timeout(seconds):
                await self._ready.wait()
            if not self._is_open:
                raise SandboxGone(f"the helper of the sandbox does not answer: {self._said()}")
            self._tasks += [asyncio.create_task(self._send()), asyncio.create_task(self._keep_alive())]
        except BaseException as exc:
            ours.close()
            await self.aclose()
            if isinstance(exc, TimeoutError):
                said = self._said()
                raise SandboxTimeout(f"the helper of the sandbox did not answer within {seconds:g} s: {said}") from exc
            raise
        return ours

    @property
    def _is_open(self) -> bool:
        return not self._mark

    def _said(self) -> str:
        return self._before.decode("utf-8", "replace").strip()[-300:] or "nothing was said"

    async def _received(self, data: bytes) -> None:
        if not self._is_open:
            self._before += data
            _, mark, data = self._before.partition(self._mark)
            if not mark:
                self._before = self._before[-BEFORE_CAP:]
                return
            self._mark = b""
            self._ready.set()
        if not data:
            return
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(self._theirs, data)
        self._untold += len(data)
        if self._untold >= ACKNOWLEDGE:
            told, self._untold = self._untold, 0
            await self._handle.send_input(word(ACKNOWLEDGED | told))

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(Exception):  # the connection broke: its end is told by the other task
            while data := await loop.sock_recv(self._theirs, PIECE):
                await self._handle.send_input(word(len(data)) + data)
            await self._handle.send_input(word(0))

    async def _keep_alive(self) -> None:
        with contextlib.suppress(Exception):
            while True:
                await asyncio.sleep(KEEPALIVE)
                await self._handle.send_input(word(ACKNOWLEDGED))

    async def _until_it_ends(self) -> None:
        with contextlib.suppress(Exception):
            await self._handle.wait()
        self._ready.set()
        with contextlib.suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """Let the helper's bridge end, and close the connection."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                for task in self._tasks[1:2]:
                    await task
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "_handle"):
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._handle.disconnect()
        self._theirs.close()
