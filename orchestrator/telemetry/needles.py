"""Looking for many words at once, in whole texts and at the end of what has come so far of a stream."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from os.path import commonprefix


def pattern_of(words: Iterable[str]) -> str:
    """A regular expression for any of these words, the longest first, that does not slow down as they become more.

    Words that begin alike share their beginning in it, so that each place of a text is looked at once.
    """
    return _branches(sorted({word for word in words if word}))


def _branches(words: Sequence[str]) -> str:
    groups = [list(group) for _, group in groupby(words, key=lambda word: word[0])]
    parts = [_branch(group) for group in groups]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _branch(words: Sequence[str]) -> str:
    """Of words with the same first character, in order."""
    shared = commonprefix([words[0], words[-1]])  # noqa: RUF071 - character by character is what is wanted
    rest = [word[len(shared) :] for word in words if len(word) > len(shared)]
    if not rest:
        return re.escape(shared)
    ending = _branches(rest)
    return re.escape(shared) + (f"(?:{ending})?" if len(rest) < len(words) else ending)


class Beginnings:
    """Tells where the end of some bytes may be the beginning of a word."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._words = sorted(set(words))
        self._firsts = frozenset(word[0] for word in self._words)
        self._longest = max(map(len, self._words), default=0)

    def at_the_end_of(self, data: bytes) -> int:
        """Where the tail of `data` begins that more bytes could complete to a word; its length when there is none."""
        for start in range(max(0, len(data) - self._longest + 1), len(data)):
            if data[start] in self._firsts and self._goes_on(data[start:]):
                return start
        return len(data)

    def _goes_on(self, tail: bytes) -> bool:
        """Whether a word is longer than `tail` and begins with it: then it is the next one in order."""
        place = bisect_right(self._words, tail)
        return place < len(self._words) and self._words[place].startswith(tail)
