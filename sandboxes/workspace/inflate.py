"""A compressed file as a stream that cannot be made to blow up."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.tarwriter import BYTES_CAP, CHUNK

STREAM_CAP: Final = 2 * BYTES_CAP
"""Bytes of a whole archive, headers and padding included."""
RATIO_CAP: Final = 200
"""Times that a stream may be larger than its file. Source code shrinks to a tenth, logs to a fiftieth."""
RATIO_FLOOR: Final = 256 * 1024**2
"""Bytes below which the ratio does not matter."""


class _Readable(Protocol):
    def read(self, count: int, /) -> bytes: ...


def inflation_cap(packed_size: int) -> int:
    """Bytes that a file of `packed_size` bytes may unpack to."""
    return min(STREAM_CAP, max(RATIO_FLOOR, packed_size * RATIO_CAP))


class Inflated:
    """A stream that is read forward, in pieces of at most `CHUNK`: a tar reader that trusts a header cannot go beyond.

    `last` is the piece that was read last.
    """

    def __init__(self, source: _Readable, packed_size: int) -> None:
        self._source = source
        self._cap = inflation_cap(packed_size)
        self._at = 0
        self.last = b""

    def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, or less at the end. Raises `ArchiveRefused` beyond the caps."""
        if not 0 <= count <= CHUNK:
            raise ArchiveRefused(f"it has a header of {count} bytes: no honest archive has")
        data = b""
        while len(data) < count:
            piece = self._source.read(count - len(data))
            if not piece:
                break
            data += piece
        self._at += len(data)
        self.last = data
        if self._at > self._cap:
            raise ArchiveRefused(f"it unpacks to more than {self._cap // 1024**2} MiB: it is too large, or a bomb")
        return data

    def tell(self) -> int:
        """Bytes read so far."""
        return self._at

    def seek(self, position: int) -> int:
        """Go forward to `position`, reading what is in between."""
        if position < self._at:
            raise io.UnsupportedOperation("an archive is read forward only")
        while self._at < position and self.read(min(CHUNK, position - self._at)):
            pass
        return self._at


@contextmanager
def inflated(path: Path) -> Iterator[Inflated]:
    """Open a file that is plain or compressed with gzip, bzip2 or xz, whatever its name says."""
    with path.open("rb") as file:
        head = file.read(6)
        file.seek(0)
        yield Inflated(_decompressor(head, file), os.fstat(file.fileno()).st_size)


def _decompressor(head: bytes, file: BinaryIO) -> _Readable:
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head == b"\xfd7zXZ\0":
        return lzma.LZMAFile(file)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        raise ArchiveRefused("it is compressed with zstd, which is not read here: use .tar.gz or .tar.xz")
    return file
