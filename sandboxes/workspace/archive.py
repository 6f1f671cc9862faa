"""A local folder as a workspace's tar. Nothing is followed out of the folder: a symbolic link is kept as a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.names import shown, to_text
from sandboxes.workspace.tarwriter import TarWriter

Keep = Callable[[bytes, os.DirEntry[bytes]], bool]
"""Told the path (relative, in the archive) of an entry and the entry: whether it goes in."""

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def pack_folder(
    folder: Path, out: TarWriter, *, prefix: str = "", exclude: Collection[str] = (), keep: Keep | None = None
) -> None:
    """Write all that is in `folder` to `out`, sorted by name, below `prefix` (empty, or a folder that `out` has already).

    `exclude` are names that are left out at any depth; `keep` may leave out more. Sockets, devices and pipes are left out.
    Raises `ArchiveRefused` for what cannot be read, changes meanwhile, or is too much.
    """
    names = frozenset(os.fsencode(name) for name in exclude)
    pending = [(os.fsencode(folder), os.fsencode(prefix))]
    while pending:
        here, inside = pending.pop()
        subfolders = []
        for entry in _entries(here):
            path = inside + b"/" + entry.name if inside else entry.name
            if entry.name in names or (keep is not None and not keep(path, entry)):
                continue
            if entry.is_dir(follow_symlinks=False):
                out.folder(to_text(path))
                subfolders.append((entry.path, path))
            else:
                _pack_entry(entry, to_text(path), out)
        pending.extend(reversed(subfolders))


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as exc:
        raise _unreadable(folder, exc) from exc


def _pack_entry(entry: os.DirEntry[bytes], path: str, out: TarWriter) -> None:
    try:
        if entry.is_symlink():
            out.link(path, to_text(os.readlink(entry.path)))  # noqa: PTH115 - names are bytes here
        elif entry.is_file(follow_symlinks=False):
            _pack_file(entry.path, path, out)
    except OSError as exc:
        if exc.filename is None:
            raise
        raise _unreadable(entry.path, exc) from exc


def _pack_file(source: bytes, path: str, out: TarWriter) -> None:
    descriptor = os.open(source, _OPEN)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & stat.S_IXUSR)
            out.file(path, status.st_size, lambda count: os.read(descriptor, count), executable=executable)
    finally:
        os.close(descriptor)


def _unreadable(path: bytes, exc: OSError) -> ArchiveRefused:
    return ArchiveRefused(f"cannot read {shown(path)}: {exc.strerror}. Make it readable, or leave it out with `exclude`")
