"""Files by the descriptor of their folder and their name: written at once, removed whole, walked in order.

No path is resolved here and no link is followed, so nothing can be swapped underneath.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from operator import itemgetter
from typing import Final

from sandboxes.protocol import INVALID_PATH, IS_DIRECTORY
from sandboxes.toolbox.helper import files
from sandboxes.toolbox.helper.search import Budget
from sandboxes.toolbox.helper.text import Refused

LISTING: Final = os.O_RDONLY | os.O_DIRECTORY
READING: Final = os.O_RDONLY | os.O_NONBLOCK
"""Of what may be a pipe: opening one must not wait for somebody at its other end."""
DEPTH: Final = 200
"""Folders in folders that are walked, or removed in one go: each holds a descriptor."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What `link` fails with on a file system that has no hard links."""

Entries = Iterator[tuple[str, "os.DirEntry[str]"]]


def regular(descriptor: int, path: str) -> tuple[FileIO, os.stat_result]:
    """The regular file behind a descriptor that was opened for `READING`, and its status. All else is closed and refused."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return FileIO(descriptor, "rb"), status
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise Refused(IS_DIRECTORY, f"Error: '{path}' is a directory")
    raise Refused(INVALID_PATH, f"Error: '{path}' is not a regular file")


def too_large(path: str, size: int, largest: int) -> Refused:
    """The refusal of a file that is larger than the backend reads."""
    return Refused(INVALID_PATH, f"Error: File '{path}' has {size} bytes, more than the {largest} that max_file_size_mb allows")


def mode_of(folder: int, name: str) -> int | None:
    """The permissions of what is there, a link's own for a link; None when nothing is."""
    try:
        return stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return None


def put(folder: int, name: str, content: bytes, *, mode: int | None, exclusive: bool) -> None:
    """Write a file that is there whole or not at all, with these permissions, or those of a new file.

    Raises `FileExistsError` when `exclusive` and something is there, else `OSError`.
    """
    temporary = f".fanfold-{os.urandom(6).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, files.NEW_MODE, dir_fd=folder)
    try:
        with FileIO(descriptor, "wb") as file:
            view = memoryview(content)
            while view:
                view = view[file.write(view) or 0 :]
            if mode is not None:
                os.fchmod(descriptor, mode)
        if exclusive:
            _claim(folder, temporary, name)
        else:
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _claim(folder: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, files.NEW_MODE, dir_fd=folder))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(folder: int, name: str) -> None:
    """Remove a file, a link (not what it leads to) or a folder with all that is in it. Raises `OSError`."""
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        with _inner(folder, name) as top:
            while _empty(top, top, 1):
                pass  # what was too deep is at the top now
        os.rmdir(name, dir_fd=folder)


def _empty(folder: int, top: int, depth: int) -> bool:
    """Remove what is in a folder. A folder that is too deep is moved to `top`; whether any was."""
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    moved = False
    for name, is_folder in entries:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
        elif depth == DEPTH:
            os.rename(name, f".fanfold-{os.urandom(6).hex()}.tmp", src_dir_fd=folder, dst_dir_fd=top)
            moved = True
        else:
            with _inner(folder, name) as inner:
                moved = _empty(inner, top, depth + 1) or moved
            os.rmdir(name, dir_fd=folder)
    return moved


@contextmanager
def _inner(folder: int, name: str) -> Iterator[int]:
    inner = os.open(name, LISTING | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield inner
    finally:
        os.close(inner)


def walk(folder: int, budget: Budget) -> Generator[tuple[str, os.DirEntry[str], int], None, None]:
    """What is below an open folder and is no folder, in order of path: (relative path, entry, descriptor of its folder).

    A folder that cannot be read, or is deeper than `DEPTH`, is noted in the budget.
    """
    stack: list[tuple[str, int, Entries]] = []
    try:
        stack.append(("", os.dup(folder), _sorted(folder)))
        while stack:
            prefix, parent, entries = stack[-1]
            for name, entry in entries:
                if name.endswith("/"):
                    _enter(stack, prefix + name, budget)
                    break
                yield prefix + name, entry, parent
            else:
                os.close(parent)
                stack.pop()
    finally:
        for _, parent, _ in stack:
            os.close(parent)


def _enter(stack: list[tuple[str, int, Entries]], path: str, budget: Budget) -> None:
    if not budget.ok():
        return
    name = path[len(stack[-1][0]) : -1]
    try:
        if len(stack) >= DEPTH:
            raise _too_deep(path)
        inner = os.open(name, LISTING | os.O_NOFOLLOW, dir_fd=stack[-1][1])
    except OSError:
        budget.unreadable = True
        return
    try:
        stack.append((path, inner, _sorted(inner)))
    except OSError:
        os.close(inner)
        budget.unreadable = True


def _too_deep(path: str) -> OSError:
    return OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)


def _sorted(folder: int) -> Entries:
    with os.scandir(folder) as found:
        marked = [(entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name, entry) for entry in found]
    marked.sort(key=itemgetter(0))
    return iter(marked)
