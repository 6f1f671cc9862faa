"""From paths to descriptors: below a root that nothing leads out of, or on this machine as it is.

`Rooted` opens a path one component after the other, each relative to the folder opened before and never through a symbolic
link. A link is read, and its target is walked the same way. So there is no moment between a check and a use in which a folder
could be swapped for a link: whatever another process does meanwhile, no descriptor leads out of the root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from sandboxes.protocol import PERMISSION_DENIED
from sandboxes.toolbox.helper.text import Refused

T = TypeVar("T")

FOLDER: Final = os.O_PATH | os.O_DIRECTORY
"""To work in a folder. To list it takes `os.O_RDONLY`."""
LINKS: Final = 40
"""Symbolic links on the way to one file, as in Linux."""
STEPS: Final = 20_000
"""Components opened on the way to one file: each `..` of a link begins again at the root."""
PATH_MAX: Final = 4096
"""Bytes of a path from which on the kernel takes none."""


class Host:
    """Paths as the kernel takes them: no containment."""

    def open(self, path: str, flags: int) -> int:
        """A descriptor of what is at `path`, or of what it leads to. Raises `OSError`."""
        return os.open(path, flags)

    @contextmanager
    def place(self, path: str, *, make: bool = False, follow: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that holds `path`, as a descriptor for `dir_fd`, and the last name (`.` of a root).

        With `make` the folders above are made. With `follow` it is the place that a link at `path` leads to, not the link's
        own. Raises `OSError`.
        """
        parent, name = os.path.split(os.path.realpath(path) if follow else path)
        try:
            folder = os.open(parent, FOLDER)
        except FileNotFoundError:
            if not make:
                raise
            Path(parent).mkdir(parents=True, exist_ok=True)
            folder = os.open(parent, FOLDER)
        try:
            yield folder, name or "."
        finally:
            os.close(folder)


class Rooted:
    """Paths below a root: `/a` is `{root}/a`. The same methods as `Host`; they raise `Refused` for what leads out.

    A symbolic link is followed as long as it stays inside; its target may be absolute, too. The root is made when it is
    missing.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, path: str, flags: int) -> int:
        """See `Host`."""
        return _Way(self._root, path).reach(lambda folder, name: _opened(folder, name, flags))

    @contextmanager
    def place(self, path: str, *, make: bool = False, follow: bool = False) -> Iterator[tuple[int, str]]:
        """See `Host`."""
        folder, name = _Way(self._root, path, make=make).reach(_no_link if follow else _any)
        try:
            yield folder, name
        finally:
            os.close(folder)


Tree = Host | Rooted


def status(tree: Tree, path: str) -> os.stat_result:
    """The status of `path`, or of what it leads to. Raises `OSError`, and `Refused` for what leads out."""
    with tree.place(path, follow=True) as (folder, name):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _opened(folder: int, name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)


def _any(folder: int, name: str) -> tuple[int, str]:
    return os.dup(folder), name


def _no_link(folder: int, name: str) -> tuple[int, str]:
    try:
        os.readlink(name, dir_fd=folder)
    except OSError:
        return os.dup(folder), name
    raise _os_error(errno.ELOOP, name)


def _os_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class _Way:
    """One path on its way through the folders below a root."""

    def __init__(self, root: Path, path: str, *, make: bool = False) -> None:
        if len(os.fsencode(root)) + len(os.fsencode(path)) >= PATH_MAX:
            raise _os_error(errno.ENAMETOOLONG, path)
        self._root = root
        self._path = path
        self._make = make
        self._todo = [part for part in path.split("/") if part][::-1]
        self._asked = len(self._todo)
        """How many of `_todo` were asked for; those above them come from links."""
        self._done: list[str] = []
        self._links = 0

    def reach(self, last: Callable[[int, str], T]) -> T:
        """What `last` makes of the folder and the last name. It fails with ELOOP or ENOTDIR where that is a link to follow."""
        folder = self._top()
        try:
            for _ in range(STEPS):
                part = self._todo[-1] if self._todo else "."
                try:
                    if len(self._todo) <= 1 and part != "..":
                        return last(folder, part)
                    following = self._up() if part == ".." else self._down(folder)
                except OSError as exc:
                    following = self._past(exc, folder, part)
                os.close(folder)
                folder = following
        finally:
            os.close(folder)
        raise _os_error(errno.ELOOP, self._path)

    def _top(self) -> int:
        try:
            return os.open(self._root, FOLDER)
        except FileNotFoundError:
            self._root.mkdir(parents=True, exist_ok=True)
            return os.open(self._root, FOLDER)

    def _take(self) -> str:
        part = self._todo.pop()
        self._asked = min(self._asked, len(self._todo))
        return part

    def _down(self, folder: int) -> int:
        following = _opened(folder, self._todo[-1], FOLDER)
        self._done.append(self._take())
        return following

    def _up(self) -> int:
        """The folder above, from the root down again: this one may have been moved out since it was opened."""
        self._take()
        if not self._done:
            raise self._leads_out()
        self._todo += self._done[-2::-1]
        self._done = []
        return self._top()

    def _past(self, exc: OSError, folder: int, part: str) -> int:
        """A descriptor to go on from after `exc`: the folder that was missing is made, the link's target is to be walked."""
        if exc.errno == errno.ENOENT and self._make and len(self._todo) > 1:
            if len(self._todo) > self._asked:
                raise _os_error(errno.EEXIST, self._path) from exc
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            return os.dup(folder)
        if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise exc
        try:
            target = os.readlink(part, dir_fd=folder)
        except OSError:
            raise exc from None
        if self._links == LINKS:
            raise _os_error(errno.ELOOP, self._path)
        self._links += 1
        self._take()
        return self._toward(target, folder)

    def _toward(self, target: str, folder: int) -> int:
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if not target.startswith("/"):
            self._todo += parts[::-1]
            return os.dup(folder)
        inside = list(self._root.parts[1:])
        if parts[: len(inside)] != inside:
            raise self._leads_out()
        self._todo += parts[len(inside) :][::-1]
        self._done = []
        return self._top()

    def _leads_out(self) -> Refused:
        return Refused(PERMISSION_DENIED, f"Error: '{self._path}' leads out of the root directory through a symbolic link")
