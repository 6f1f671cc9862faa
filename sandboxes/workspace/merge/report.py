"""A merge for people and for programs: what each child did, what came of it, and what is left to decide.

Names and contents are strangers': in the page they are shown, and never read as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sandboxes.workspace.merge.values import At, ChildResult, Conflict, MergeResult
from sandboxes.workspace.names import shown

EXCERPT: Final = 8 * 1024
"""Bytes of a text in conflict that the page shows."""
ROWS: Final = 1000
"""Paths that a list of the page shows."""

_SPECIAL: Final = re.compile(r"[^\w /.,'-]|_")
_RUN: Final = re.compile(r"`+")


@dataclass(frozen=True)
class MergeReport:
    """What there is to say about a merge."""

    result: MergeResult

    def to_json(self) -> dict[str, Any]:
        """As plain data. Bytes of paths that are not UTF-8 are surrogate escapes, which `json.dumps` writes as `\\udc..`."""
        result = self.result
        return {
            "base": result.base.id,
            "tree": result.tree.id,
            "clean": result.clean,
            "refused": result.refused,
            "merged": [{"path": path, "children": list(children)} for path, children in result.merged.items()],
            "conflicts": [_conflict_json(conflict) for conflict in result.conflicts],
            "children": [
                {
                    "name": child.name,
                    "changed": list(child.changed),
                    "conflicts": list(child.conflicts),
                    "left_out": list(child.left_out),
                }
                for child in result.per_child
            ],
        }

    def to_markdown(self) -> str:
        """As a page."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        result = self.result
        yield from ("# Merge", "", f"{self._verdict()} The base is tree `{result.base.id}`, the result `{result.tree.id}`.", "")
        yield from ("| child | changed | in conflict | left out |", "|---|---|---|---|")
        yield from map(_row, result.per_child)
        if result.conflicts:
            yield from ("", "## Conflicts")
            for conflict in result.conflicts[:ROWS]:
                yield from ("", *self._conflict(conflict))
            yield from _more(len(result.conflicts))
        yield from ("", "## Who changed what", "")
        names = {path: ", ".join(map(escaped, children)) for path, children in list(result.merged.items())[:ROWS]}
        yield from (f"- {escaped(shown(path))}: {children}" for path, children in names.items())
        yield from _more(len(result.merged))
        if not result.merged:
            yield "Nobody changed anything."

    def _verdict(self) -> str:
        paths = {conflict.path for conflict in self.result.conflicts if not conflict.settled}
        if self.result.refused:
            return "**Refused**: there are conflicts at paths where the policy allows none."
        if paths:
            return f"**To be decided**: {len(paths)} path{'s' * (len(paths) != 1)} in conflict."
        return "**Merged.** Nothing is left to decide."

    def _conflict(self, conflict: Conflict) -> Iterator[str]:
        yield f"### {escaped(shown(conflict.path))}"
        yield ""
        yield f"{conflict.kind}, between {' and '.join(map(escaped, conflict.children))}: {_outcome(conflict)}."
        sides = {"base": conflict.base, "ours": conflict.ours, "theirs": conflict.theirs}
        yield from ("", *(f"- {name}: {_side(at)}" for name, at in sides.items()))
        if conflict.marked is not None:
            yield from ("", *_fenced(self.result.contents.get(conflict.marked)))


def escaped(text: str) -> str:
    """Text of strangers in a line of Markdown: whatever could mean something there is written as a character reference."""
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};" if found[0].isprintable() else "?", text)


def _row(child: ChildResult) -> str:
    return f"| {escaped(child.name)} | {len(child.changed)} | {len(child.conflicts)} | {len(child.left_out)} |"


def _more(count: int) -> Iterable[str]:
    return ("", f"... and {count - ROWS} more.") if count > ROWS else ()


def _outcome(conflict: Conflict) -> str:
    if conflict.command is not None:
        return f"to be made anew by {escaped(shown(conflict.command))}"
    if conflict.settled:
        return f"settled by the policy ({conflict.choice})"
    return {"ask": "to be asked about", "fail": "not allowed by the policy"}.get(conflict.choice, "to be decided")


def _side(at: At | None) -> str:
    return "nothing" if at is None else f"{escaped(shown(at.path))}, mode {at.node.mode}, `{at.node.blob}`"


def _fenced(content: bytes) -> Iterator[str]:
    """A text as a block of code, whose fence is longer than any in it."""
    text = content[:EXCERPT].decode("utf-8", "replace")
    lines = ["".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line) for line in text.splitlines()]
    fence = "`" * (max((len(run[0]) for run in _RUN.finditer(text)), default=2) + 1)
    yield from (fence if len(fence) > 2 else "```", *lines, fence if len(fence) > 2 else "```")
    if len(content) > EXCERPT:
        yield f"The first {EXCERPT // 1024} KiB of {len(content)} bytes."


def _conflict_json(conflict: Conflict) -> dict[str, Any]:
    return {
        "path": conflict.path,
        "kind": conflict.kind,
        "children": list(conflict.children),
        "base": _at_json(conflict.base),
        "ours": _at_json(conflict.ours),
        "theirs": _at_json(conflict.theirs),
        "choice": conflict.choice,
        "settled": conflict.settled,
        "marked": conflict.marked,
        "command": conflict.command,
    }


def _at_json(at: At | None) -> dict[str, Any] | None:
    if at is None:
        return None
    return {"path": at.path, "mode": at.node.mode, "blob": at.node.blob, "size": at.node.size}
