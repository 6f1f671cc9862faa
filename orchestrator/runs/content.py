"""Reading the content of an artifact as a file, in pieces, wherever it lies."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable

from orchestrator.errors import InfrastructureError

PIECE = 4 * 1024 * 1024
"""Bytes that are fetched at once, and all that is in memory."""


class ContentReader(io.RawIOBase):
    """Content of `size` bytes that `fetch(start, end)` gives in ranges; it can be read and sought.

    With a `sha256`, content that is read from its first byte to its last is checked, and the read that reaches the end raises
    `InfrastructureError` when it is not what was stored.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, *, sha256: str | None) -> None:
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._at = 0
        self._sha256 = sha256
        self._hash = hashlib.sha256()
        self._hashed = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset, also beyond the end; where that is."""
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill the buffer as far as there is content; how many bytes."""
        wanted = max(0, min(len(buffer), self._size - self._at))
        piece = self._fetch(self._at, self._at + wanted) if wanted else b""
        if len(piece) != wanted:
            raise InfrastructureError(f"the content of an artifact ends after {self._at + len(piece)} of {self._size} bytes")
        buffer[:wanted] = piece
        self._check(piece)
        self._at += wanted
        return wanted

    def readall(self) -> bytes:
        """All that is left. (What io has would fetch it in very small pieces.)"""
        pieces = []
        while piece := self.read(PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def _check(self, piece: bytes) -> None:
        if self._sha256 is None or self._hashed != self._at:
            return
        self._hash.update(piece)
        self._hashed += len(piece)
        if self._hashed == self._size and self._hash.hexdigest() != self._sha256:
            raise InfrastructureError(
                f"the content {self._sha256} of an artifact has changed where it is stored: do not use it"
            )
