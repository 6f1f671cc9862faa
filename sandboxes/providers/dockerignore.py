"""What a `.dockerignore` leaves out of a context, as Docker reads it."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from sandboxes.errors import InvalidSpec

LINES_CAP: Final = 1000
PARTS_CAP: Final = 50
"""Parts of a line between slashes: how long a match may take, and how deep it goes."""
ANY: Final = "**"
"""As a part of a pattern: any number of folders, none included."""

Fits = Callable[[str], object]
_ESCAPED: Final = re.compile(r"\\(.)")


class Rules:
    """The lines of a `.dockerignore`; of several that fit a path, or a folder above it, the last counts."""

    def __init__(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if len(lines) > LINES_CAP:
            raise InvalidSpec(f"dockerfile: the .dockerignore has more than {LINES_CAP} lines")
        self._rules = [(line.startswith("!"), _parts(line.removeprefix("!").strip())) for line in lines]
        self._takes_back = any(back for back, _ in self._rules)

    def leave_out(self, path: str, *, folder: bool) -> bool:
        """Whether a path of the context is left out. A folder is not while a line may take something in it back."""
        if folder and self._takes_back:
            return False
        names = path.split("/")
        return next((not back for back, parts in reversed(self._rules) if parts and _fits(parts, names)), False)


def _parts(line: str) -> tuple[Fits | None, ...]:
    """What each part of a path has to be; None is any number of parts."""
    found: list[Fits | None] = []
    for part in posixpath.normpath(line).lstrip("/").split("/"):
        if part == ANY:
            found += [] if found[-1:] == [None] else [None]
        elif part not in ("", "."):
            found.append(re.compile(fnmatch.translate(_ESCAPED.sub(r"[\1]", part).replace("[^", "[!"))).match)
    if len(found) > PARTS_CAP:
        raise InvalidSpec(f"dockerfile: a line of the .dockerignore has more than {PARTS_CAP} parts: {line[:80]}")
    return tuple(found)


def _fits(parts: Sequence[Fits | None], names: Sequence[str]) -> bool:
    """Whether the parts fit the path of these names, or a folder above it."""

    @cache
    def fits(part: int, name: int) -> bool:
        if part == len(parts):
            return True
        if (wanted := parts[part]) is None:
            rest = part + 1 == len(parts) and name == len(names)
            return not rest and any(fits(part + 1, later) for later in range(name, len(names) + 1))
        return name < len(names) and wanted(names[name]) is not None and fits(part + 1, name + 1)

    return fits(0, 0)
