"""Which files of one side were moved, found as Git finds them: the same content, else the same name, else a like content.

The measure of likeness and the order of preference are those of Git (diffcore-rename, diffcore-delta), so that a merge sees
a rename where `git merge-tree` sees one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cache
from itertools import islice
from typing import Final

from sandboxes.workspace.merge.text import TEXT_CAP, is_text
from sandboxes.workspace.merge.values import is_file, same_type
from sandboxes.workspace.names import to_bytes
from sandboxes.workspace.tree import Node

PAIRS_CAP: Final = 100_000
"""Pairs of files whose contents are compared. Where there are more, only what kept its content or its name is found."""
BYTES_CAP: Final = 64 * 1024**2
"""Bytes of all these files together: so much of them is in memory at once, in pieces."""
_WHOLE: Final = 60_000
"""The score of two files that are the same."""
_LIKE: Final = _WHOLE // 2
_LIKE_WITH_NAME: Final = _WHOLE * 3 // 4
_PER_TARGET: Final = 4
"""Sources that are remembered for a target."""
_SAME_CONTENT_CAP: Final = 100
_SPAN: Final = 64
"""Bytes of a line that count as one piece."""
_EMPTY: Final = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

Read = Callable[[str], bytes]


def find_renames(gone: Mapping[str, Node], new: Mapping[str, Node], wanted: Collection[str], read: Read) -> dict[str, str]:
    """For paths in `wanted`, where they were moved to: from those in `gone` to those in `new`.

    `read` gives a content by its blob id. An empty file is never moved: it is like any other.
    """
    sources = {path: gone[path] for path in sorted(gone, key=to_bytes) if gone[path].blob != _EMPTY}
    targets = {path: new[path] for path in sorted(new, key=to_bytes) if new[path].blob != _EMPTY}
    found: dict[str, str] = {}

    def settle(pairs: dict[str, str]) -> None:
        found.update(pairs)
        for source, target in pairs.items():
            del sources[source], targets[target]

    settle(_same_content(sources, targets))
    settle(_same_name(sources, targets, wanted, _measure(lambda blob: _pieces(read(blob)))))
    left = {path: node for path, node in sources.items() if path in wanted}
    settle(_like_content(left, targets, _measure(cache(lambda blob: _pieces(read(blob))))))
    return {source: target for source, target in found.items() if source in wanted}


def _same_content(sources: Mapping[str, Node], targets: Mapping[str, Node]) -> dict[str, str]:
    by_blob: dict[str, list[str]] = {}
    for path, node in sources.items():
        by_blob.setdefault(node.blob, []).append(path)
    pairs: dict[str, str] = {}
    for target, node in targets.items():
        free = (source for source in by_blob.get(node.blob, ()) if source not in pairs and same_type(sources[source], node))
        candidates = list(islice(free, _SAME_CONTENT_CAP))
        if candidates:
            pairs[max(candidates, key=lambda source: _name(source) == _name(target))] = target
    return pairs


def _same_name(
    sources: Mapping[str, Node], targets: Mapping[str, Node], wanted: Collection[str], measure: Measure
) -> dict[str, str]:
    """Files that kept their name, when no other file of the sources or the targets has it."""
    known, there = _by_name(sources), _by_name(targets)
    pairs: dict[str, str] = {}
    for name, paths in known.items():
        others = there.get(name, [])
        if len(paths) != 1 or len(others) != 1 or paths[0] not in wanted:
            continue
        if measure(sources[paths[0]], targets[others[0]], _LIKE_WITH_NAME) >= _LIKE_WITH_NAME:
            pairs[paths[0]] = others[0]
    return pairs


def _like_content(sources: Mapping[str, Node], targets: Mapping[str, Node], measure: Measure) -> dict[str, str]:
    """The likest pairs first; among equals those with the same name."""
    size = sum(node.size for side in (sources, targets) for node in side.values())
    if len(sources) * len(targets) > PAIRS_CAP or size > BYTES_CAP:
        return {}
    scored: list[tuple[int, bool, str, str]] = []
    for target, node in targets.items():
        scores = [
            (measure(before, node, _LIKE), _name(source) == _name(target), source, target) for source, before in sources.items()
        ]
        likely = [entry for entry in scores if entry[0] >= _LIKE]
        scored += sorted(likely, key=_rank)[:_PER_TARGET]
    pairs: dict[str, str] = {}
    taken: set[str] = set()
    for _, _, source, target in sorted(scored, key=_rank):
        if source not in pairs and target not in taken:
            pairs[source] = target
            taken.add(target)
    return pairs


def _rank(entry: tuple[int, bool, str, str]) -> tuple[int, bool]:
    return -entry[0], not entry[1]


Measure = Callable[[Node, Node, int], int]
"""How much of one file is in another: 0 to `_WHOLE`. 0 when it cannot reach the third argument."""


def _measure(pieces: Callable[[str], Mapping[bytes, int]]) -> Measure:
    def measure(old: Node, new: Node, least: int) -> int:
        larger, smaller = max(old.size, new.size), min(old.size, new.size)
        if not (is_file(old) and is_file(new)) or larger > TEXT_CAP or larger * (_WHOLE - least) < (larger - smaller) * _WHOLE:
            return 0
        before, after = pieces(old.blob), pieces(new.blob)
        kept = sum(min(size, after[piece]) for piece, size in before.items() if piece in after)
        return kept * _WHOLE // larger

    return measure


def _pieces(content: bytes) -> Mapping[bytes, int]:
    """How many bytes each piece of a file makes up: its lines, in parts of at most 64 bytes."""
    if is_text(content):
        content = content.replace(b"\r\n", b"\n")
    *lines, last = content.split(b"\n")
    pieces: Counter[bytes] = Counter()
    for line in (*(line + b"\n" for line in lines), last):
        for at in range(0, len(line), _SPAN):
            piece = line[at : at + _SPAN]
            pieces[piece.lstrip(b"\0")] += len(piece)  # Git's hash of a piece does not see them
    return pieces


def _by_name(paths: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(_name(path), []).append(path)
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]
