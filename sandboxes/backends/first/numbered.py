"""Text with numbered lines, as `read` of the protocol's first version gives it: written, and taken apart again."""

from __future__ import annotations

import re
from typing import Final

EMPTY: Final = "System reminder: File exists but has empty contents"
"""What a first-version `read` says of an empty file."""
LINE_WIDTH: Final = 10_000
"""Characters of a line after which it goes on in a line of its own, numbered `7.1`, `7.2`, ..."""

_NUMBERED: Final = re.compile(r"\s*(\d+)(?:\.(\d+))?(?:\t|→|\||: )(.*)", re.DOTALL)
_MORE: Final = re.compile(r"\n\n?\.\.\. \(\d+ more lines?\b[^\n]*\)\Z")
"""What adk-deepagents puts below a window that is not the end of the file."""
_FAILURES: Final = ("Error: ", "Error reading ", "No content at offset ")


def number(lines: list[str], start_line: int = 1) -> str:
    """`lines` in the manner of `cat -n`: the number in six columns, a tab, the line."""
    shown = []
    for at, line in enumerate(lines, start_line):
        pieces = [line[begin : begin + LINE_WIDTH] for begin in range(0, len(line), LINE_WIDTH)] or [""]
        shown += [f"{at if not piece else f'{at}.{piece}':>6}\t{text}" for piece, text in enumerate(pieces)]
    return "\n".join(shown)


def lines_of(answer: str, offset: int) -> list[str]:
    """The lines of a first-version `read` from `offset`, without their numbers.

    Where the numbers do not run on from `offset + 1`, line by line, the text has none, and stays as it is.
    """
    if answer.startswith(EMPTY):
        return []
    shown = answer.removesuffix("\n").split("\n")
    return _unnumbered(shown, offset) or _unnumbered(_MORE.sub("", answer).split("\n"), offset) or shown


def _unnumbered(shown: list[str], offset: int) -> list[str]:
    lines: list[str] = []
    pieces = 0
    for one in shown:
        match = _NUMBERED.fullmatch(one)
        if match is None:
            return []
        at, piece, rest = int(match[1]), int(match[2] or 0), match[3]
        if piece == 0 and at == offset + len(lines) + 1:
            lines.append(rest)
        elif lines and at == offset + len(lines) and piece == pieces + 1:
            lines[-1] += rest
        else:
            return []
        pieces = piece
    return lines


def failure(answer: str, offset: int) -> str | None:
    """What is wrong, when a first-version `read` answered with that in place of numbered text."""
    return answer if answer.startswith(_FAILURES) and not _unnumbered(answer.split("\n"), offset) else None
