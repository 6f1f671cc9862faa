"""The one form in which a workspace travels: a deterministic tar of folders, files and symbolic links, and nothing else.

Same content, same bytes: times, owners and permissions are constants, but for a file's executable bit. GNU format, so that a
name may be of any bytes and any length, and every `tar` reads it.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Final

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.names import BadName, shown, split, to_bytes

ENTRIES_CAP: Final = 1_000_000
"""Entries of a workspace."""
BYTES_CAP: Final = 10 * 1024**3
"""Bytes of all files of a workspace together."""
CHUNK: Final = 1024 * 1024
"""Bytes that are held in memory at once."""

_MTIME: Final = 946_684_800
"""The year 2000: a constant, but late enough for zip files, which know nothing before 1980."""
_BLOCK: Final = 512
_END: Final = bytes(2 * _BLOCK)
_DIGITS: Final = 11
"""Octal digits of a size in a header."""

Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that was written to a tar: where its content begins (bytes), and what is needed to write it again."""

    offset: int
    size: int
    executable: bool


class TarWriter:
    """Writes entries as they come, streaming, and refuses paths that cannot be and more than a workspace may hold.

    Every method raises `ArchiveRefused`. Whether entries clash with each other is the caller's to know.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._entries = 0
        self._bytes = 0
        self._at = 0

    def folder(self, path: str) -> None:
        """Add a folder; its parents are the caller's to add, before it."""
        self._header(path + "/", tarfile.DIRTYPE, 0o755)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._header(path, tarfile.SYMTYPE, 0o777, target=target)

    def file(self, path: str, size: int, read: Read, *, executable: bool = False) -> FileRef:
        """Add a file of `size` bytes; `read(n)` gives the next at most n of them, and nothing at their end.

        Raises `ArchiveRefused` when it gives fewer, and takes no more than `size`.
        """
        self._bytes += size
        if self._bytes > BYTES_CAP:
            raise ArchiveRefused(f"the files are larger than {BYTES_CAP // 1024**3} GiB together, at {shown(path)}: {_ADVICE}")
        self._header(path, tarfile.REGTYPE, 0o755 if executable else 0o644, size=size)
        written = FileRef(self._at, size, executable)
        left = size
        while left:
            piece = read(min(CHUNK, left))
            if not piece:
                raise ArchiveRefused(f"{shown(path)} ended {left} bytes early: is it cut off, or being written?")
            self._write(piece)
            left -= len(piece)
        self._write(bytes(-size % _BLOCK))
        return written

    def again(self, path: str, written: FileRef) -> FileRef:
        """Add a copy of a file that was added before, as a file of its own. `out` must be readable, too."""
        self._out.flush()
        at = written.offset

        def read(count: int) -> bytes:
            nonlocal at
            piece = os.pread(self._out.fileno(), count, at)
            at += len(piece)
            return piece

        return self.file(path, written.size, read, executable=written.executable)

    def close(self) -> None:
        """Write the end of the archive. The file below stays open."""
        self._write(_END)

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        self._at += len(data)

    def _header(self, path: str, kind: bytes, mode: int, *, size: int = 0, target: str = "") -> None:
        self._entries += 1
        if self._entries > ENTRIES_CAP:
            raise ArchiveRefused(f"there are more than {ENTRIES_CAP} files and folders: {_ADVICE}")
        try:
            split(path.removesuffix("/"))
        except BadName as exc:
            raise ArchiveRefused(f"{shown(path)} cannot be in a workspace: it {exc}") from exc
        self._write(_plain(to_bytes(path), kind, mode, size) or _any(path, kind, mode, size, target))


def _any(path: str, kind: bytes, mode: int, size: int = 0, target: str = "") -> bytes:
    """A header, with those before it that a long path or target needs."""
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.size, info.linkname, info.mtime = kind, mode, size, target, _MTIME
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _plain(path: bytes, kind: bytes, mode: int, size: int) -> bytes | None:
    """The same, ten times as fast, where nothing but a short path and a size has to be filled in; None for any other."""
    if kind == tarfile.SYMTYPE or len(path) > tarfile.LENGTH_NAME or size >= 8**_DIGITS:
        return None
    blank, total = _blank(kind, mode)
    digits = b"%0*o" % (_DIGITS, size)
    total += sum(path) + sum(digits)
    return b"%b%b%b%b%06o%b" % (path.ljust(100, b"\0"), blank[100:124], digits, blank[135:148], total, blank[154:])


@cache
def _blank(kind: bytes, mode: int) -> tuple[bytes, int]:
    """A header without path and size, and the sum of its bytes (with spaces in the place of that sum, as the format has it)."""
    header = _any("", kind, mode)
    return header, sum(header[100:124]) + sum(header[135:148]) + 8 * ord(" ") + sum(header[156:])


_ADVICE: Final = "give a smaller folder, or leave parts out with `exclude`"
