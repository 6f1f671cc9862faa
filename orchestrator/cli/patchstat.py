"""How much a patch changes: files, lines added, lines removed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.text import count

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True)
class PatchStat:
    """Sums over a Git patch. Binary changes count as files only."""

    files: int = 0
    added: int = 0
    removed: int = 0

    def __str__(self) -> str:
        if not self.files:
            return "no changes"
        return f"{count(self.files, 'file')} changed, {count(self.added, 'line')} added, {self.removed} removed"

    @classmethod
    def of(cls, lines: Iterable[bytes]) -> PatchStat:
        """Count over the lines of a patch. Inside a hunk its header tells how many lines belong to it, so that a removed
        line that looks like a header is counted as what it is."""
        files = added = removed = old_left = new_left = 0
        for line in lines:
            if old_left > 0 or new_left > 0:
                if line.startswith(b"\\"):
                    continue
                old_left -= not line.startswith(b"+")
                new_left -= not line.startswith(b"-")
                added += line.startswith(b"+")
                removed += line.startswith(b"-")
            elif line.startswith(b"diff --git "):
                files += 1
            elif hunk := _HUNK.match(line):
                old_left, new_left = (int(part) if part else 1 for part in (hunk[1], hunk[2]))
        return cls(files, added, removed)
