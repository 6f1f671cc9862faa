"""grep and glob over `Entries`: the order, the limits and the words of the toolbox's own search.

Entries come a page at a time and in any order, while an answer is in order of path. So a search goes through all of them and
keeps only the first so many matches; memory is bounded by the answer, not by what is kept.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

from sandboxes import protocol as p
from sandboxes.backends.keyed import filedata
from sandboxes.backends.keyed.entries import Entries
from sandboxes.backends.keyed.operations import answering, below, checked, missing, regular, utf8
from sandboxes.toolbox.helper import media, text
from sandboxes.toolbox.helper.search import BYTES, FILE_CAP, MATCHES, SECONDS

T = TypeVar("T")


class First(Generic[T]):
    """The first `most` items, and about `BYTES` of them, in order of path, whatever order the files come in."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: list[tuple[str, list[T], int]] = []
        self._items = 0
        self._bytes = 0
        self.dropped = False

    def add(self, path: str, items: list[T], size: int = 0) -> None:
        """The items of one file, `size` bytes together."""
        self._files.append((path, items, size))
        self._items += len(items)
        self._bytes += size
        if self._items > 2 * self._most + MATCHES or self._bytes > 2 * BYTES:
            self._trim()

    def _trim(self) -> None:
        self._files.sort(key=lambda file: file[0])
        room, size, kept = self._most, 0, list[tuple[str, list[T], int]]()
        for path, items, weight in self._files:
            if room <= 0 or size >= BYTES:
                self.dropped = True
                break
            self.dropped = self.dropped or len(items) > room
            kept.append((path, items[:room], weight))
            room, size = room - len(items), size + weight
        self._files = kept
        self._items, self._bytes = sum(len(file[1]) for file in kept), size

    def items(self) -> list[T]:
        """They, in order. `dropped` says whether there were more."""
        self._trim()
        return [item for _, items, _ in self._files for item in items]


class _Clock:
    """Whether a search still has time, and whether it ran out of it."""

    def __init__(self) -> None:
        self._end = time.monotonic() + SECONDS
        self.over = False

    def ok(self) -> bool:
        self.over = time.monotonic() > self._end
        return not self.over


@answering(p.GlobResult)
async def glob(entries: Entries, pattern: str, path: str | None) -> p.GlobResult:
    """See the protocol."""
    matches, root = text.glob_matcher(pattern), checked("/" if path is None else path)
    prefix, clock, any_file = below(root), _Clock(), root == "/"
    found: First[p.FileInfo] = First(MATCHES)
    async with aclosing(entries.listing(prefix)) as listed:
        async for info in listed:
            if not clock.ok():
                break
            any_file = any_file or regular(info["path"])
            if regular(info["path"]) and matches(info["path"][len(prefix) :]):
                found.add(info["path"], [info])
    if not any_file:
        if await entries.load(root) is not None:
            raise text.Refused(p.INVALID_PATH, f"Error: '{root}' is not a directory")
        raise await missing(entries, root)
    shown = found.items()
    short = clock.over or found.dropped
    return p.GlobResult(matches=shown, truncated=short, truncation_reason="budget" if short else None)


@answering(p.GrepResult)
async def grep(
    entries: Entries, pattern: str, path: str | None, glob: str | None, *, max_count: int | None = None
) -> p.GrepResult:
    """See the protocol."""
    if not pattern:
        raise text.Refused("invalid_argument", "Error: the pattern must not be empty")
    wanted = utf8("pattern", pattern)
    matches = text.glob_matcher(glob) if glob else None
    limit = MATCHES if max_count is None else max(0, min(max_count, MATCHES))
    found: First[p.GrepMatch] = First(limit + 1)
    clock = _Clock()
    async with aclosing(_candidates(entries, checked("/" if path is None else path))) as files:
        async for relative, place, kept in files:
            if not clock.ok():
                break
            if (matches is None or matches(relative)) and filedata.may_contain(kept, pattern):
                _search(found, place, kept, wanted, limit + 1)
    shown = found.items()
    return p.GrepResult(matches=shown[:limit], truncated=len(shown) > limit or found.dropped or clock.over)


def _search(found: First[p.GrepMatch], path: str, kept: p.FileData, wanted: bytes, most: int) -> None:
    if media.is_media(path):
        return
    try:
        content = filedata.content_of(path, kept)
    except text.Refused:
        return
    if len(content) > FILE_CAP:
        return
    lines = text.grep_lines(content, wanted, most)
    if lines:
        items = [p.GrepMatch(path=path, line=number, text=shown) for number, shown in lines]
        found.add(path, items, sum(len(shown) for _, shown in lines))


async def _candidates(entries: Entries, root: str) -> AsyncGenerator[tuple[str, str, p.FileData], None]:
    """(path relative to the root, path, what is kept) of the file `root` or of each file in the folder `root`."""
    if root != "/" and (kept := await entries.load(root)) is not None:
        yield posixpath.basename(root), root, kept
        return
    prefix, any_file = below(root), root == "/"
    async with aclosing(entries.scan(prefix)) as scanned:
        async for place, kept in scanned:
            if regular(place):
                any_file = True
                yield place[len(prefix) :], place, kept
    if not any_file:
        raise await missing(entries, root)
