"""Commands of a fan-out's own in a sandbox, of which only the end is of interest."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from sandboxes.sandbox import CommandSpec, Sandbox

OUTPUT_CAP = 16 * 1024
"""Bytes of the end of a command's output that are kept."""


@dataclass(frozen=True)
class Tried:
    """How a command ended."""

    exit_code: int
    output: str
    """The end of what it printed."""


async def run_command(sandbox: Sandbox, command: str, timeout: float) -> Tried:
    """Run a command to its end, or until `timeout` (seconds) is over: then its exit code is 124."""
    process = await sandbox.start(CommandSpec(command, timeout=timeout, merge=True))
    kept: deque[bytes] = deque()
    size = 0
    async for chunk in process.output():
        kept.append(chunk.data)
        size += len(chunk.data)
        while size - len(kept[0]) >= OUTPUT_CAP:
            size -= len(kept.popleft())
    result = await process.wait()
    return Tried(result.exit_code, b"".join(kept)[-OUTPUT_CAP:].decode("utf-8", "replace"))
