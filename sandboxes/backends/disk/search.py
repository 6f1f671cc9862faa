"""grep and glob over a tree of files on disk, in the words and the order of the toolbox's own search.

Folders are walked by their descriptors, so that nothing outside of the tree is looked into. Links are not followed; glob lists
one to a file where the tree lets it be followed.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import islice

from sandboxes import protocol as p
from sandboxes.backends.disk import ripgrep
from sandboxes.backends.disk.descriptors import LISTING, READING, too_large, walk
from sandboxes.backends.disk.rooted import Tree, status
from sandboxes.toolbox.helper import files, media, text
from sandboxes.toolbox.helper.search import MATCHES, Budget

HEAD = 64 * 1024
"""Bytes of a file that are read before it is known to be text."""
FIRST = 200
"""Files in which a search for a few matches may have found them already, before it asks ripgrep for all."""

Contents = Generator[tuple[str, bytes], None, None]
"""Files in order of path, and what is in them."""
Allows = Callable[[str], object]
"""Whether a file is to be looked into, by its path relative to the folder that is searched."""


class DiskSearch:
    """Searches of one tree, in files of at most `largest` bytes. Each raises `Refused` for what cannot be searched."""

    def __init__(self, tree: Tree, largest: int) -> None:
        self._tree = tree
        self._largest = largest

    def glob(self, pattern: str, path: str) -> p.GlobResult:
        """See the protocol."""
        matches, budget, found = text.glob_matcher(pattern), _budget(MATCHES), list[p.FileInfo]()
        with self._folder(path) as folder:
            if folder is None:
                raise text.Refused(p.INVALID_PATH, f"Error: '{path}' is not a directory")
            with closing(walk(folder, budget)) as walked:
                for relative, entry, _ in walked:
                    if matches(relative):
                        if not budget.ok():
                            break
                        found += self._described(below(path) + relative, entry)
                        budget.matches = MATCHES - len(found)
        reason: p.GlobTruncationReason | None = "budget" if budget.spent else "unreadable" if budget.unreadable else None
        return p.GlobResult(matches=found, truncated=reason is not None, truncation_reason=reason)

    def grep(self, pattern: str, path: str, glob: str | None, max_count: int | None) -> p.GrepResult:
        """See the protocol."""
        wanted, matches = _bytes(pattern), text.glob_matcher(glob) if glob else None
        limit = MATCHES if max_count is None else max(0, min(max_count, MATCHES))

        def allows(relative: str) -> bool:
            return not media.is_media(relative) and (matches is None or matches(relative) is not None)

        with self._folder(path) as folder:
            if folder is None:
                only = [path] if allows(posixpath.basename(path)) else []
                return _lines(((path, self._only(path)) for path in only), wanted, limit, _budget(limit + 1))
            prefix, budget = below(path), _budget(limit + 1)
            if max_count is not None:
                early = _lines(self._all(folder, prefix, allows, budget), wanted, limit, budget, FIRST)
                if budget.matches <= 0:
                    return early
            named = ripgrep.named(folder, pattern, glob, self._largest)
            budget = _budget(limit + 1)
            if named is None:
                return _lines(self._all(folder, prefix, allows, budget), wanted, limit, budget)
            found = _lines(self._some(prefix, sorted(filter(allows, named.files))), wanted, limit, budget)
            found.truncated = found.truncated or not named.complete
            return found

    @contextmanager
    def _folder(self, path: str) -> Iterator[int | None]:
        """The folder at `path`, open to be listed; None when something else is there."""
        try:
            folder = self._tree.open(path, LISTING)
        except NotADirectoryError:
            self._known(path)
            yield None
            return
        except OSError as exc:
            raise files.refusal(exc, path) from exc
        try:
            yield folder
        finally:
            os.close(folder)

    def _known(self, path: str) -> os.stat_result:
        try:
            return status(self._tree, path)
        except OSError as exc:
            raise files.refusal(exc, path) from exc

    def _described(self, path: str, entry: os.DirEntry[str]) -> list[p.FileInfo]:
        """The file that is there, if it is a regular one."""
        try:
            known = status(self._tree, path) if entry.is_symlink() else entry.stat(follow_symlinks=False)
        except (OSError, text.Refused):
            return []
        return [files.describe(path, known)] if stat.S_ISREG(known.st_mode) else []

    def _all(self, folder: int, prefix: str, allows: Allows, budget: Budget) -> Contents:
        with closing(walk(folder, budget)) as walked:
            for relative, entry, parent in walked:
                if not entry.is_symlink() and allows(relative):
                    yield prefix + relative, self._content(_here(parent, entry.name))

    def _some(self, prefix: str, names: list[str]) -> Contents:
        return ((prefix + name, self._content(self._at(prefix + name))) for name in names)

    def _only(self, path: str) -> bytes:
        known = self._known(path)
        if stat.S_ISREG(known.st_mode) and known.st_size > self._largest:
            raise too_large(path, known.st_size, self._largest)
        return self._content(self._at(path))

    def _at(self, path: str) -> int | None:
        try:
            return self._tree.open(path, READING)
        except (OSError, text.Refused):
            return None

    def _content(self, descriptor: int | None) -> bytes:
        """What is in a regular file; empty when it is too large or does not begin like text."""
        if descriptor is None:
            return b""
        try:
            known = os.fstat(descriptor)
            if not stat.S_ISREG(known.st_mode) or known.st_size > self._largest:
                return b""
            head = os.read(descriptor, min(known.st_size, HEAD) or HEAD)
            if known.st_size <= HEAD:
                return head
            return b"" if text.is_binary(head[: text.SNIFF]) else head + os.read(descriptor, known.st_size - HEAD)
        except OSError:
            return b""
        finally:
            os.close(descriptor)


def below(folder: str) -> str:
    """What the paths of all that is in a folder begin with."""
    return folder if folder == "/" else folder + "/"


def _budget(matches: int = MATCHES) -> Budget:
    return Budget(lambda: False, matches)


def _here(folder: int, name: str) -> int | None:
    try:
        return os.open(name, READING | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return None


def _bytes(pattern: str) -> bytes:
    if not pattern:
        raise text.Refused("invalid_argument", "Error: the pattern must not be empty")
    try:
        return pattern.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise text.Refused("invalid_argument", f"Error: the pattern cannot be written as UTF-8: {exc.reason}") from None


def _lines(contents: Contents, wanted: bytes, limit: int, budget: Budget, most: int | None = None) -> p.GrepResult:
    """The matching lines of files that come in order of path; of the first `most` of them."""
    found: list[p.GrepMatch] = []
    with closing(contents):
        for path, content in islice(contents, most):
            for number, shown in text.grep_lines(content, wanted, budget.matches):
                found.append(p.GrepMatch(path=path, line=number, text=shown))
                budget.matches -= 1
                budget.bytes -= len(shown)
            if not budget.ok():
                break
    return p.GrepResult(matches=found[:limit], truncated=len(found) > limit or (budget.spent and budget.matches > 0))
