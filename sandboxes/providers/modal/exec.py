"""Running commands in a sandbox: whole runs of short ones, for the toolbox's installation and the plain-exec transport."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Final

from sandboxes.errors import ProtocolError, SandboxTimeout
from sandboxes.providers.modal import layout
from sandboxes.providers.modal.platform import Platform, Process
from sandboxes.toolbox.shell_exec import ExecResult

INPUT: Final = 1024 * 1024
"""Bytes of input in one request."""
STDERR_CAP: Final = 64 * 1024
"""Bytes of stderr that are kept, the first ones."""


class SandboxExec:
    """Commands in one sandbox, as its user or as root. See `sandboxes.toolbox.shell_exec.Exec`."""

    def __init__(self, platform: Platform, sandbox_id: str, *, root: bool = False) -> None:
        self._platform = platform
        self._id = sandbox_id
        self._before = [] if root else [layout.as_user(sandbox_id)]

    async def __call__(self, argv: Sequence[str], stdin: bytes = b"", *, deadline: float, cap: int) -> ExecResult:
        """See `Exec`."""
        process, out, said = await self._run(argv, stdin, deadline, cap, coded=True)
        return ExecResult(process.returncode, out, said)

    async def printed(self, argv: Sequence[str], stdin: bytes, *, deadline: float, cap: int) -> tuple[bytes, str]:
        """What a command prints, or else what it complains of. How it ends is not asked: that would be one more request."""
        _, out, said = await self._run(argv, stdin, deadline, cap, coded=False)
        return out, said

    async def _run(
        self, argv: Sequence[str], stdin: bytes, deadline: float, cap: int, *, coded: bool
    ) -> tuple[Process, bytes, str]:
        try:
            async with asyncio.timeout(deadline):
                process = await self.start(argv, timeout=math.ceil(deadline))
                work = self._finish(process, stdin, cap, coded)
                return process, *await self._platform.ask("run a command", work, deadline)
        except TimeoutError as exc:
            raise SandboxTimeout(f"the sandbox did not finish {argv[0]} within {deadline:g} s") from exc

    async def start(self, argv: Sequence[str], *, timeout: int | None = None) -> Process:
        """Start a command. The platform kills it after `timeout` seconds."""
        words = [*self._before, *argv]
        return await self._platform.unless_ended(
            self._id,
            lambda sandbox: self._platform.ask("start a command", sandbox.exec.aio(*words, text=False, timeout=timeout)),
        )

    async def _finish(self, process: Process, stdin: bytes, cap: int, coded: bool) -> tuple[bytes, str]:
        feeding = asyncio.ensure_future(_feed(process, stdin))
        try:
            out = await read(process.stdout, cap)
            if len(out) > cap:
                raise ProtocolError(f"the sandbox sent more than the {cap} bytes that it was asked for")
            if coded:
                await process.wait.aio()
            said = b"" if out else await read(process.stderr, STDERR_CAP)
        finally:
            feeding.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await feeding
        return bytes(out), said[:STDERR_CAP].decode("utf-8", "replace")


async def _feed(process: Process, stdin: bytes) -> None:
    for at in range(0, max(1, len(stdin)), INPUT):
        if piece := stdin[at : at + INPUT]:
            process.stdin.write(piece)
        if at + INPUT >= len(stdin):
            process.stdin.write_eof()
        await process.stdin.drain.aio()


async def read(stream: Process, cap: int) -> bytearray:
    """What is printed to a stream, and at most a piece more than `cap` bytes of it."""
    found = bytearray()
    async for piece in stream:
        found += piece
        if len(found) > cap:
            break
    return found
