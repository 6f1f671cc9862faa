"""Three JSON texts into one, by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from sandboxes.workspace.merge.bykey import MISSING, Unmergeable, merge_values

_INDENT: Final = re.compile(r"[\[{]\r?\n([ \t]+)")


def merge_json(base: bytes | None, ours: bytes, theirs: bytes) -> bytes | None:
    """The document with the changes of both sides, key by key, in the layout of `ours`. Without a base all keys are new.

    None when it cannot be said: both changed the same value, to different ones; a side is no JSON in UTF-8, has a key twice,
    or a number that would come out in another form. Lists are values: they are not merged.
    """
    try:
        merged = merge_values(MISSING if base is None else _load(base), _load(ours), _load(theirs))
        return _dump(merged, ours.decode())
    except (ValueError, RecursionError, Unmergeable):
        return None


def _load(text: bytes) -> Any:
    numbers = {"parse_float": _number(float), "parse_int": _number(int), "parse_constant": _refuse}
    return json.loads(text.decode(), object_pairs_hook=_unique, **numbers)


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Unmergeable
        found[key] = value
    return found


def _refuse(constant: str) -> None:
    """`NaN` and infinities are no JSON."""
    raise Unmergeable


def _number(kind: type[float] | type[int]) -> Any:
    """A parser that refuses what would not be written as it was read."""

    def parse(literal: str) -> float | int:
        value = kind(literal)
        if repr(value) != literal:
            raise Unmergeable
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
