"""What a process has printed, kept for whoever reads it from an offset."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

PIECE: Final = 1024 * 1024
"""Bytes of one message."""
AHEAD: Final = 8 * 1024 * 1024
"""Bytes that may wait for a reader before the process has to."""
BEHIND: Final = 16 * 1024 * 1024
"""Bytes that are kept after they were read, for a reader whose connection broke."""


class Output:
    """One stream of a process. `keeps` bytes of a stream that nobody need read; None where the process waits for its reader."""

    def __init__(self, keeps: int | None = None) -> None:
        self._data = bytearray()
        self._base = 0
        self._read = 0
        self._keeps = keeps
        self._changed = asyncio.Condition()
        self.ended = False

    async def write(self, data: bytes) -> None:
        """Take what was printed; waits while a reader is too far behind."""
        async with self._changed:
            if self._keeps is not None:
                data = data[: max(0, self._keeps - len(self._data))]
            else:
                await self._changed.wait_for(lambda: self._end - self._read < AHEAD or self.ended)
            self._data += data
            self._changed.notify_all()

    @property
    def _end(self) -> int:
        return self._base + len(self._data)

    async def end(self) -> None:
        """Nothing more will come."""
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def pieces(self, offset: int) -> AsyncIterator[bytes]:
        """All of it from a byte on, as it comes. Raises `IndexError` for what is not kept any more."""
        while True:
            async with self._changed:
                if offset < self._base:
                    raise IndexError(f"byte {offset} is not kept any more, only those from {self._base} on")
                while self._end <= offset and not self.ended:
                    await self._changed.wait()
                piece = bytes(self._data[offset - self._base : offset - self._base + PIECE])
                if not piece:
                    return
            yield piece
            offset += len(piece)
            await self._let_go(offset)

    async def _let_go(self, offset: int) -> None:
        async with self._changed:
            self._read = max(self._read, offset)
            if self._keeps is None and (spare := self._read - BEHIND - self._base) > PIECE:
                del self._data[:spare]
                self._base += spare
            self._changed.notify_all()
