"""A command in a machine, as the task command router knows it: stdin by offset, output by offset, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Final

from tests.wire.modal.engine import Engine, EngineError
from tests.wire.modal.output import Output

STDERR_KEPT: Final = 1024 * 1024
READ: Final = 1024 * 1024
STEP: Final = 0.01
"""Seconds between two looks for an exit code: the engine has it a moment after the stream has ended."""
_STDOUT: Final = 1
KILLED: Final = 128 + signal.SIGKILL


class Gap(ValueError):
    """Input that does not begin where the last one ended."""


class Process:
    """Made by `Process.start`."""

    def __init__(self, engine: Engine, exec_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._exec_id = exec_id
        self._reader = reader
        self._writer = writer
        self._feeding = asyncio.Lock()
        self.written = 0
        self.closed = False
        self.stdout = Output()
        self.stderr = Output(STDERR_KEPT)
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._work = asyncio.create_task(self._carry())

    @classmethod
    async def start(cls, engine: Engine, machine: str, argv: list[str], env: dict[str, str], workdir: str | None) -> Process:
        """Start a command. Raises `EngineError` when the machine does not run."""
        asked = {
            "Cmd": argv,
            "Env": [f"{key}={value}" for key, value in env.items()],
            **{f"Attach{name}": True for name in ("Stdin", "Stdout", "Stderr")},
            **({"WorkingDir": workdir} if workdir else {}),
        }
        made = await engine.ask("POST", f"/containers/{machine}/exec", asked)
        streams = await engine.stream(f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        return cls(engine, made["Id"], *streams)

    async def _carry(self) -> None:
        """Take the engine's frames apart: stream number, 3 zero bytes, length, payload."""
        try:
            while True:
                head = await self._reader.readexactly(8)
                sink = self.stdout if head[0] == _STDOUT else self.stderr
                left = int.from_bytes(head[4:], "big")
                while left:
                    data = await self._reader.read(min(left, READ))
                    if not data:
                        raise asyncio.IncompleteReadError(b"", left)
                    left -= len(data)
                    await sink.write(data)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            for sink in (self.stdout, self.stderr):
                await sink.end()
            self._writer.close()
        self.ended.set_result(await self._exit_code())

    async def _exit_code(self) -> int:
        with contextlib.suppress(EngineError):
            told = await self._engine.ask("GET", f"/exec/{self._exec_id}/json")
            while told["Running"]:
                await asyncio.sleep(STEP)
                told = await self._engine.ask("GET", f"/exec/{self._exec_id}/json")
            return int(told["ExitCode"] if told["ExitCode"] is not None else KILLED)
        return KILLED  # the machine is gone

    async def feed(self, offset: int, data: bytes, eof: bool) -> None:
        """Write to stdin what is there from `offset` on; what it has already is left out. Raises `Gap`."""
        async with self._feeding:
            if offset > self.written:
                raise Gap(f"input from byte {offset} on, but only {self.written} have come")
            new = data[self.written - offset :]
            if new and not self.closed:
                self._writer.write(new)
                with contextlib.suppress(OSError):
                    await self._writer.drain()
                self.written += len(new)
            if eof and not self.closed:
                self.closed = True
                with contextlib.suppress(OSError):
                    self._writer.write_eof()

    async def kill(self) -> None:
        """Kill the command itself. What it has started goes on, as it does on the platform."""
        told = await self._engine.ask("GET", f"/exec/{self._exec_id}/json")
        if told["Running"] and told["Pid"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(told["Pid"], signal.SIGKILL)

    async def aclose(self) -> None:
        """Let go of it."""
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        for sink in (self.stdout, self.stderr):
            await sink.end()
        self._writer.close()
        if not self.ended.done():
            self.ended.set_result(KILLED)
