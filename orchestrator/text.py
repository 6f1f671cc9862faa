"""Text that is fit to be shown: what a sandbox or a model prints is hostile, and must not drive a person's terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MAX_LINE = 64 * 1024
"""Characters of one output line; a longer one is shown in pieces, so that an endless line holds no endless memory."""

# Sequences first (so that no `[31m` stays behind), then every control character that is left. Strings that a sequence
# opens and never ends are not swallowed: only their control characters go.
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# C0 but tab and newline, DEL, C1, and what turns the direction of writing: that can make text look like other text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
# The beginning of a sequence whose end may come with the next piece.
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]{0,4096}|[ -/]*)?\x1b?$")
_MAX_HELD = 4200
MAX_NAMES = 10
"""Names that are told of many."""


def clean(text: str) -> str:
    """`text` without terminal sequences and control characters; newlines and tabs stay, broken bytes become U+FFFD."""
    plain = _SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return _SURROGATES.sub("\ufffd", _CONTROLS.sub("", plain))


def one_line(text: str, width: int = 100) -> str:
    """`text` cleaned and on one line of at most `width` characters."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else flat[: width - 1].rstrip() + "…"


class Lines:
    """Puts pieces of a stream together to cleaned lines. A carriage return overwrites its line, as on a terminal."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> Iterator[str]:
        """The lines that `text` completes."""
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            yield _shown(line)
        while len(self._rest) > MAX_LINE:
            yield _shown(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]

    def finish(self) -> Iterator[str]:
        """The last line, when it had no newline."""
        rest, self._rest = self._rest, ""
        if rest:
            yield _shown(rest)


def _shown(line: str) -> str:
    return clean(line.rstrip("\r").rpartition("\r")[2])


class TerminalFilter:
    """Lets text, newlines, tabs and colours through to a terminal, and nothing else. Sequences may come in pieces."""

    def __init__(self) -> None:
        self._held = ""
        self._coloured = False

    def feed(self, text: str) -> str:
        """What of `text` (and of what was held back before) can be shown now."""
        text = self._held + text
        self._held = ""
        unfinished = _UNFINISHED.search(text)
        if unfinished and len(unfinished[0]) < _MAX_HELD:
            self._held = unfinished[0]
            text = text[: unfinished.start()]
        return self._shown(text)

    def finish(self) -> str:
        """What ends the output: an unfinished sequence is dropped, colours are reset."""
        self._held = ""
        return "\x1b[0m" if self._coloured else ""

    def _shown(self, text: str) -> str:
        pieces: list[str] = []
        end = 0
        for colour in _COLOUR.finditer(text):
            pieces += [clean(text[end : colour.start()]), colour[0]]
            end = colour.end()
            self._coloured = True
        return "".join([*pieces, clean(text[end:])])


def duration(seconds: float) -> str:
    """`0.4 s`, `12.3 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def size(count: int) -> str:
    """`812 B`, `1.4 KiB`, `50.0 MiB`."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1023.95 or unit == "GiB":
            break
    return f"{value:.1f} {unit}"


def count(number: int, noun: str, several: str | None = None) -> str:
    """`1 file`, `3 files`; `several` is for a noun that takes more than an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {several or f'{noun}s'}"


def names(of: Sequence[str]) -> str:
    """`a, b`; of more than ten the first ones, `and 7 more`."""
    more = f" and {len(of) - MAX_NAMES} more" if len(of) > MAX_NAMES else ""
    return ", ".join(of[:MAX_NAMES]) + more


def ago(seconds: float) -> str:
    """`now`, `3 min ago`, `2 h ago`, `5 days ago`."""
    for length, unit in ((86400, "day"), (3600, "h"), (60, "min")):
        if seconds >= length:
            number = int(seconds // length)
            return f"{count(number, unit) if unit == 'day' else f'{number} {unit}'} ago"
    return f"{int(seconds)} s ago" if seconds >= 1 else "now"
