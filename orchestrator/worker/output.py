"""A command in a sandbox, its output on the way into the record: redacted, in whole characters, and capped."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from orchestrator.worker.past import Past
from orchestrator.worker.recorder import Recorder
from sandboxes.sandbox import Command, CommandSpec, Sandbox

EVENTS_CAP = 4 * 1024 * 1024
"""Bytes of one command's output that become events; the rest goes to a log."""
LOG_CAP = 64 * 1024 * 1024
"""Bytes of the log; what is beyond is counted and dropped."""
KILL_TIMEOUT = 5.0
"""Seconds for killing a command whose run was stopped; its sandbox is destroyed next in any case."""
PIECE = 256 * 1024
"""Bytes that are read at once from a log."""


STREAMS = ("stdout", "stderr")


class OutputSink:
    """Where the output of one command goes."""

    def __init__(self, recorder: Recorder, kind: str, log: Path, past: Past | None = None) -> None:
        """`past` is what was told of this command before: what it printed up to there is not asked for again."""
        past = past or Past()
        self._recorder = recorder
        self._kind = kind
        self._streams = {name: recorder.redactor.stream() for name in STREAMS}
        self._cut = dict.fromkeys(STREAMS, b"")
        self.offsets = {name: past.offsets.get((kind, name), 0) for name in STREAMS}
        """For each stream how many of its bytes have come."""
        self._room = max(0, EVENTS_CAP - past.told.get(kind, 0))
        self._log_path = log
        self._log: BinaryIO | None = None
        self.logged = 0
        """Bytes that went to the log."""
        self.dropped = 0
        """Bytes that went nowhere."""

    def feed(self, stream: str, data: bytes) -> None:
        """Take a piece of output."""
        self.offsets[stream] += len(data)
        self._pass_on(stream, self._cut[stream] + self._streams[stream].feed(data), final=False)

    def close(self) -> None:
        """Take note that there is no more."""
        for stream, redacted in self._streams.items():
            self._pass_on(stream, self._cut[stream] + redacted.close(), final=True)
        if self._log:
            self._log.close()

    def leave(self) -> None:
        """Take note that another worker goes on: what is held back here, which may begin a secret, is told there."""
        self._streams.clear()

    async def log_content(self) -> AsyncIterator[bytes]:
        """The log, after `close`."""
        with self._log_path.open("rb") as file:
            while piece := file.read(PIECE):
                yield piece

    def _pass_on(self, stream: str, data: bytes, *, final: bool) -> None:
        whole = len(data) if final else _whole_characters(data)
        self._cut[stream] = data[whole:]
        ready = data[:whole]
        if ready and self._room > 0:
            shown = ready[: self._room]
            self._room -= len(shown)
            self._recorder.output(self._kind, stream, shown, self._offset(stream) if shown == ready else None)
            ready = ready[len(shown) :]
        if ready:
            self._write_log(ready)

    def _offset(self, stream: str) -> int:
        """Bytes of the stream up to where all has been passed on; what is held back is not counted."""
        return self.offsets[stream] - self._streams[stream].held - len(self._cut[stream])

    def _write_log(self, data: bytes) -> None:
        if self._log is None:
            self._log = self._log_path.open("xb")
        kept = data[: LOG_CAP - self.logged]
        self._log.write(kept)
        self.logged += len(kept)
        self.dropped += len(data) - len(kept)


def _whole_characters(data: bytes) -> int:
    """The length of `data` without a UTF-8 character that is cut at its end."""
    for back in range(1, min(4, len(data) + 1)):
        if data[-back] >= 0xC0:  # the first byte of a character
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            return len(data) if decoder.decode(data[-back:]) else len(data) - back
        if data[-back] < 0x80:
            break
    return len(data)


async def stream_command(
    sandbox: Sandbox, command: str, sink: OutputSink, *, call_id: str, started: Callable[[], None]
) -> tuple[int, int]:
    """Run a command to its end; its exit code, and how many bytes of its output the sandbox lost. Cancelling kills it."""
    process = await sandbox.start(CommandSpec(command), call_id=call_id)
    started()
    try:
        async for chunk in process.output(**sink.offsets):
            sink.feed(chunk.stream, chunk.data)
        result = await process.wait()
    except asyncio.CancelledError:
        if sandbox.leaves_commands:
            sink.leave()
        else:
            await _kill(process)
        raise
    finally:
        sink.close()
    return result.exit_code, result.lost


async def _kill(process: Command) -> None:
    with contextlib.suppress(Exception):  # the sandbox is destroyed next, and its processes with it
        async with asyncio.timeout(KILL_TIMEOUT):
            await process.kill()
