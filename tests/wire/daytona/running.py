"""Processes in a sandbox, for the toolbox: started by its daemon, their streams in this event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from typing import Final

from tests.wire.daytona.jail import Answer, Jail

PIECE: Final = 32 * 1024
"""Bytes that are read at once, as the real daemon does."""


class Running:
    """A process of a sandbox."""

    def __init__(self, answer: Answer) -> None:
        self.terminal = answer.descriptors[0] if answer.descriptors else None
        """The other end of its terminal."""
        self._connection = answer.connection
        self._connection.setblocking(False)
        self.ended: asyncio.Task[int | None] = asyncio.create_task(self._wait(answer.rest))

    async def _wait(self, line: bytes) -> int | None:
        """Its exit code; None when its sandbox went first."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._connection)
        with contextlib.suppress(OSError):
            line = line or await reader.readline()
        self._writer.close()
        return int(json.loads(line)["exit"]) if line else None

    def kill(self, *, group: bool) -> None:
        """End it, or its whole group."""
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps({"signal": signal.SIGKILL, "group": group}).encode() + b"\n")


async def started(
    jail: Jail, argv: list[str], cwd: str, env: Mapping[str, str], descriptors: list[int], size: tuple[int, int] | None = None
) -> Running:
    """Start a process; these descriptors (three, or none with a terminal) are closed here. Raises `OSError`."""
    fields = {"argv": argv, "cwd": cwd, "env": dict(env), "size": size}
    try:
        answer = await asyncio.to_thread(jail.ask, "run", descriptors, **fields)
    finally:
        for one in descriptors:
            os.close(one)
    return Running(answer)


async def reader_of(descriptor: int) -> asyncio.StreamReader:
    """A stream of what comes from a pipe."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(limit=PIECE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb"))
    return stream


async def ready(descriptor: int, *, write: bool) -> None:
    """Wait until a descriptor can be read, or written."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if write else (loop.add_reader, loop.remove_reader)
    add(descriptor, lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        remove(descriptor)
