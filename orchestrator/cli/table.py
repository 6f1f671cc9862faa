"""Aligned columns, coloured on a terminal. A program that reads them gets whole values: nothing is cut to a width."""

from __future__ import annotations

from collections.abc import Sequence

_COLOURS = {
    "success": "32", "error": "31", "timeout": "31", "cancelled": "33", "running": "36", "pending": "36", "interrupted": "33"
}  # fmt: skip


def columns(rows: Sequence[Sequence[str]], *, colours: bool = False) -> str:
    """`rows` as text; the first one is the header."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [_cell(value, width, header=number == 0, colours=colours) for value, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def _cell(value: str, width: int, *, header: bool, colours: bool) -> str:
    padded = value.ljust(width)
    code = "2" if header else _COLOURS.get(value)
    return f"\x1b[{code}m{padded}\x1b[0m" if colours and code else padded
