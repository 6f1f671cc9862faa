"""Headers are those of `tarfile`, however they are made."""

from __future__ import annotations

import io
import tarfile

import pytest

from sandboxes.workspace.tarwriter import TarWriter, _plain

MTIME = 946_684_800
PATHS = ["a", "a b/c", "é/ü.txt", "\udcff\udcfe", "x" * 100, "x" * 101, "y/" * 49 + "zz", "y/" * 49 + "zzz", "ü" * 50, "ü" * 51]


def of_tarfile(path: str, kind: bytes, mode: int, size: int = 0, target: str = "") -> bytes:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.size, info.linkname, info.mtime = kind, mode, size, target, MTIME
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_headers_are_those_of_tarfile(path: str) -> None:
    out, expected = io.BytesIO(), b""
    writer = TarWriter(out)
    for executable in (False, True):
        writer.file(path, 3, io.BytesIO(b"abc").read, executable=executable)
        expected += of_tarfile(path, tarfile.REGTYPE, 0o755 if executable else 0o644, 3) + b"abc".ljust(512, b"\0")
    writer.folder(path)
    writer.link(path, "to/" + path)
    expected += of_tarfile(path + "/", tarfile.DIRTYPE, 0o755) + of_tarfile(path, tarfile.SYMTYPE, 0o777, target="to/" + path)
    assert out.getvalue() == expected


@pytest.mark.parametrize("size", [0, 1, 0o777, 10**6, 8**11 - 1, 8**11, 10**12])
def test_sizes_are_those_of_tarfile(size: int) -> None:
    quick = _plain(b"some/file", tarfile.REGTYPE, 0o644, size)
    assert (quick is None) == (size >= 8**11)
    assert quick in (None, of_tarfile("some/file", tarfile.REGTYPE, 0o644, size))
