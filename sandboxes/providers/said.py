"""What a build has printed, for an error message: a stranger has written it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LINES: Final = 20
"""Lines of a build that are told, the last ones."""
LINE_CAP: Final = 300
"""Characters of each."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)


def told_lines(pieces: Iterable[str]) -> str:
    """The last lines of these pieces, without what a terminal would obey."""
    text = _ESCAPES.sub("", "".join(pieces)[-LINES * LINE_CAP * 4 :])
    lines = [line.rstrip()[:LINE_CAP] for line in re.split(r"[\r\n]+", text) if line.strip()]
    return "\n".join("".join(map(_plain, line)) for line in lines[-LINES:])


def _plain(character: str) -> str:
    return character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}"
