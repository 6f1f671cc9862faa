"""Placeholders of a task's templates: `${{ item }}`, `${{ item.KEY }}`, `${{ matrix.KEY }}`.

A name stands for a value, and that is all: nothing is evaluated, and what a value says is not looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from orchestrator.complaints import MAX_SHOWN, did_you_mean
from orchestrator.fields import MAX_TEXT

_OPENS = "${{"
_PLACEHOLDER = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")


def fill(text: str, values: Mapping[str, str], *, quote: Callable[[str], str] = str) -> str:
    """`text` with the values in the place of their names, each through `quote`.

    Raises `ValueError` for a `${{` that begins no placeholder, for a name without a value, and when it comes to more than
    `MAX_TEXT` characters.
    """
    parts: list[str] = []
    end, length = 0, len(text)
    while (begin := text.find(_OPENS, end)) >= 0:
        match = _PLACEHOLDER.match(text, begin)
        if match is None or match[1] not in values:
            raise ValueError(_unknown(text[begin : begin + MAX_SHOWN], values))
        parts += [text[end:begin], quote(values[match[1]])]
        length += len(parts[-1]) - len(match[0])
        if length > MAX_TEXT:
            raise ValueError(f"comes to more than {MAX_TEXT} characters with its placeholders filled")
        end = match.end()
    return "".join([*parts, text[end:]])


def _unknown(shown: str, values: Mapping[str, str]) -> str:
    whole, closed, _ = shown.partition("}}")
    name = whole.removeprefix(_OPENS).strip()
    known = ", ".join(f"${{{{ {one} }}}}" for one in values)
    return f"{whole + closed!r} is no placeholder here{did_you_mean(name, values) or f': there is {known}'}"
