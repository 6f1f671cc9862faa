"""Three JSON texts into one, by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

_INDENT: Final = re.compile(r"[\[{]\r?\n([ \t]+)")
_MISSING: Final = object()


class _Unmergeable(Exception):
    """These documents are for the text merge."""


def merge_json(base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
    """The document with the changes of both sides, key by key, in the layout of `ours`. Without a base all keys are new.

    None when it cannot be said: both changed the same value, to different ones; a side is no JSON in UTF-8, has a key twice,
    or a number that would come out in another form. Lists are values: they are not merged.
    """
    try:
        merged = _merge(_MISSING if base is None else _load(base), _load(ours), _load(theirs))
        return _dump(merged, ours.decode())
    except (ValueError, RecursionError, _Unmergeable):
        return None


def _merge(base: Any, ours: Any, theirs: Any) -> Any:
    if _same(ours, theirs) or _same(theirs, base):
        return ours
    if _same(ours, base):
        return theirs
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        raise _Unmergeable
    before = base if isinstance(base, dict) else {}
    merged = {}
    for key in _order(ours, theirs):
        value = _merge(*(side.get(key, _MISSING) for side in (before, ours, theirs)))
        if value is not _MISSING:
            merged[key] = value
    return merged


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: `1`, `1.0` and `true` are three values, the order of keys is none."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _order(ours: Iterable[str], theirs: Iterable[str]) -> Iterator[str]:
    """The keys of ours in their order; new ones of theirs behind the key of ours that they follow there."""
    followers: dict[str | None, list[str]] = {None: []}
    followers.update((key, []) for key in ours)
    anchor: str | None = None
    for key in theirs:
        if key in followers:
            anchor = key
        else:
            followers[anchor].append(key)
    for leader, keys in followers.items():
        yield from keys if leader is None else (leader, *keys)


def _load(text: bytes) -> Any:
    numbers = {"parse_float": _number(float), "parse_int": _number(int), "parse_constant": _refuse}
    return json.loads(text.decode(), object_pairs_hook=_unique, **numbers)


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Unmergeable
        found[key] = value
    return found


def _refuse(constant: str) -> None:
    """`NaN` and infinities are no JSON."""
    raise _Unmergeable


def _number(kind: type[float] | type[int]) -> Any:
    """A parser that refuses what would not be written as it was read."""

    def parse(literal: str) -> float | int:
        value = kind(literal)
        if repr(value) != literal:
            raise _Unmergeable
        return value

    return parse


def _dump(value: Any, like: str) -> bytes:
    """As text, laid out as `like` is: its indent, its line ends, its characters as they are or escaped, its end."""
    indent = _INDENT.search(like)
    compact = indent is None and '": ' not in like
    text = json.dumps(
        value,
        indent=indent[1] if indent else None,
        separators=(",", ":") if compact else (("," if indent else ", "), ": "),
        ensure_ascii=like.isascii() and "\\u" in like,
    )
    ending = like[len(like.rstrip()) :]
    lines = text.replace("\n", "\r\n") if "\r\n" in like else text
    return (lines + ending).encode()
