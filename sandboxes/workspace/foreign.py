"""An archive that a stranger made, as a workspace's tar. It goes from stream to stream: nothing of it is ever unpacked here.

Refused with the name of the culprit: absolute paths, `..`, links that lead out of the archive, hard links to what is not in
it, devices, entries that clash or lie below a link or a file, encrypted and broken archives, and bombs.
"""

from __future__ import annotations

import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection
from lzma import LZMAError
from pathlib import Path
from typing import BinaryIO, Final, cast

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.inflate import inflated, inflation_cap
from sandboxes.workspace.names import PATH_CAP, BadName, parents, shown, split
from sandboxes.workspace.tarwriter import FileRef, TarWriter

_BROKEN: Final = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError),
    *(EOFError, OSError, ValueError, NotImplementedError, struct.error),
)
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")

Read = Callable[[int], bytes]


def normalize(archive: Path, out: TarWriter, *, exclude: Collection[str] = ()) -> None:
    """Check a tar (plain, gzip, bzip2, xz) or zip file and write its entries to `out`; parents are added where they lack.

    `exclude` are names that are left out at any depth. Raises `ArchiveRefused`; what `out` got by then is to be thrown away.
    """
    entries = _Entries(out, frozenset(exclude))
    try:
        with archive.open("rb") as file:
            is_zip = file.read(4) in _ZIP
        (_read_zip if is_zip else _read_tar)(archive, entries)
    except ArchiveRefused as exc:
        raise ArchiveRefused(f"archive {shown(str(archive))}: {exc}") from exc
    except _BROKEN as exc:
        raise ArchiveRefused(
            f"archive {shown(str(archive))} cannot be read ({exc}): give a whole .tar, .tar.gz, .tar.bz2, .tar.xz or .zip file"
        ) from exc


class _Entries:
    """What has been seen of an archive. Each entry is checked against that, and then written."""

    def __init__(self, out: TarWriter, exclude: frozenset[str]) -> None:
        self._out = out
        self._exclude = exclude
        self._kinds: dict[str, str] = {}
        self._files: dict[str, FileRef] = {}

    def folder(self, name: str) -> None:
        path = self._place(name, "folder")
        if path:
            self._make_folder(path)

    def link(self, name: str, target: str) -> None:
        path = self._place(name, "link")
        if path:
            _check_target(path, target)
            self._out.link(path, target)

    def file(self, name: str, size: int, read: Read, *, executable: bool) -> None:
        path = self._place(name, "file")
        if path:
            self._files[path] = self._out.file(path, size, read, executable=executable)

    def hard_link(self, name: str, target: str) -> None:
        """A hard link to a file that came before becomes a copy of it: the two are not tied together in a workspace."""
        path = self._place(name, "file")
        written = self._files.get("/".join(_split(target)))
        if path and written is None:
            raise ArchiveRefused(f"the entry {shown(name)} is a hard link to {shown(target)}, which is no file before it")
        if path and written is not None:
            self._files[path] = self._out.again(path, written)

    def _place(self, name: str, kind: str) -> str:
        """The path that an entry goes to, claimed for it; empty when it goes nowhere (the root, or excluded)."""
        parts = _split(name)
        path = "/".join(parts)
        if not path and kind != "folder":
            raise ArchiveRefused(f"the entry {shown(name)} is a {kind} in the place of the root")
        for folder in parents(path):
            if self._kinds.get(folder, "folder") != "folder":
                raise ArchiveRefused(f"the entry {shown(name)} lies below {shown(folder)}, which is a {self._kinds[folder]}")
        there = self._kinds.get(path)
        if there and not there == kind == "folder":
            raise ArchiveRefused(f"the entry {shown(name)} is there twice")
        if not self._exclude.isdisjoint(parts):
            return ""
        for folder in reversed(list(parents(path))):
            self._make_folder(folder)
        if kind != "folder":
            self._kinds[path] = kind
        return path

    def _make_folder(self, path: str) -> None:
        if path not in self._kinds:
            self._kinds[path] = "folder"
            self._out.folder(path)


def _split(name: str) -> list[str]:
    """The parts of an entry's name, forgiving `./`, `//` and a slash at the end."""
    path = "/".join(part for part in name.split("/") if part not in ("", "."))
    try:
        return split("/" + path if name.startswith("/") else path) if path or name.startswith("/") else []
    except BadName as exc:
        raise ArchiveRefused(f"the entry {shown(name)} {exc}") from exc


def _check_target(path: str, target: str) -> None:
    """Refuse a link that leads out of the root.

    `..` is taken at the beginning of a target only: no parent of an entry is a link, so there it means what it says; after
    the name of another link it would mean something else.
    """
    if not target or "\0" in target or len(target) > PATH_CAP:
        raise ArchiveRefused(f"the link {shown(path)} points to nothing that can be: {shown(target)}")
    parts = [part for part in target.split("/") if part not in ("", ".")]
    up = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or up > path.count("/") or ".." in parts[up:]:
        raise ArchiveRefused(f"the link {shown(path)} points to {shown(target)}, out of the archive: remove it, or exclude it")


def _read_tar(archive: Path, entries: _Entries) -> None:
    with (
        inflated(archive) as stream,
        tarfile.open(fileobj=cast("BinaryIO", stream), mode="r:", errors="surrogateescape") as tar,
    ):
        while (info := tar.next()) is not None:
            tar.members.clear()  # type: ignore[attr-defined]  # a million of them would take a gigabyte
            _read_member(info, stream.read, entries)
        if stream.last.strip(b"\0"):  # the reader takes a damaged header for the end
            raise ArchiveRefused(f"it is damaged or cut off at byte {stream.tell()}")


def _read_member(info: tarfile.TarInfo, read: Read, entries: _Entries) -> None:
    if info.isdir():
        entries.folder(info.name)
    elif info.issym():
        entries.link(info.name, info.linkname)
    elif info.islnk():
        entries.hard_link(info.name, info.linkname)
    elif info.isreg() and not info.issparse():
        entries.file(info.name, info.size, read, executable=bool(info.mode & stat.S_IXUSR))
    else:
        what = "a sparse file" if info.issparse() else "a device or another special file"
        raise ArchiveRefused(f"the entry {shown(info.name)} is {what}: an archive may hold files, folders and symbolic links")


def _read_zip(archive: Path, entries: _Entries) -> None:
    with zipfile.ZipFile(archive) as file:
        if sum(info.file_size for info in file.infolist()) > inflation_cap(archive.stat().st_size):
            raise ArchiveRefused("it unpacks to far more than its own size: it is too large, or a bomb")
        for info in file.infolist():
            if info.flag_bits & 1:
                raise ArchiveRefused(f"the entry {shown(info.filename)} is encrypted")
            _read_zip_member(file, info, entries)


def _read_zip_member(file: zipfile.ZipFile, info: zipfile.ZipInfo, entries: _Entries) -> None:
    mode = info.external_attr >> 16 if info.create_system == 3 else 0
    kind = stat.S_IFMT(mode)
    if info.is_dir():
        entries.folder(info.filename)
    elif kind == stat.S_IFLNK:
        with file.open(info) as content:
            entries.link(info.filename, content.read(PATH_CAP + 1).decode("utf-8", "surrogateescape"))
    elif kind in (0, stat.S_IFREG):
        with file.open(info) as content:
            entries.file(info.filename, info.file_size, content.read, executable=bool(mode & stat.S_IXUSR))
    else:
        raise ArchiveRefused(f"the entry {shown(info.filename)} is a device or another special file")
