"""Three values into one, by key: what documents of any form have in common."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final, TypeVar

MISSING: Final = object()
"""No value."""

_Key = TypeVar("_Key", bound=Hashable)


class Unmergeable(Exception):
    """These documents are for the text merge."""


def merge_values(base: Any, ours: Any, theirs: Any) -> Any:
    """The mapping with the changes of both sides, key by key. `MISSING` stands for nothing. Raises `Unmergeable`.

    Lists are values: they are not merged.
    """
    if same(ours, theirs) or same(theirs, base):
        return ours
    if same(ours, base):
        return theirs
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        raise Unmergeable
    before = base if isinstance(base, dict) else {}
    merged = {}
    for key in order(ours, theirs):
        value = merge_values(*(side.get(key, MISSING) for side in (before, ours, theirs)))
        if value is not MISSING:
            merged[key] = value
    return merged


def same(one: Any, other: Any) -> bool:
    """Equal as data: `1`, `1.0` and `true` are three values, the order of keys is none."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def order(ours: Iterable[_Key], theirs: Iterable[_Key]) -> Iterator[_Key]:
    """The keys of ours in their order; new ones of theirs behind the key of ours that they follow there."""
    followers: dict[_Key, list[_Key]] = {key: [] for key in ours}
    first: list[_Key] = []
    behind = first
    for key in theirs:
        if key in followers:
            behind = followers[key]
        else:
            behind.append(key)
    yield from first
    for leader, keys in followers.items():
        yield from (leader, *keys)
