"""A merge for people and for programs: what each child did, what came of it, and what is left to decide.

Names and contents are strangers': in the page they are shown, and never read as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sandboxes.workspace.merge.values import At, ChildResult, Conflict, MergeResult
from sandboxes.workspace.merge.verified import Checked, LeftOut
from sandboxes.workspace.names import shown

EXCERPT: Final = 8 * 1024
"""Bytes of a text in conflict, and of what a check said, that a report shows."""
ROWS: Final = 1000
"""Paths that a list of the page shows."""

_SPECIAL: Final = re.compile(r"[^\w /.,'-]|_")
_RUN: Final = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Failed:
    """A child that was not merged, because it did not come to an end that could be: a run's status, and what was wrong."""

    name: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a merge was checked with, and how that ended for its result; `checked` is None when it was not made for it."""

    command: str
    checked: Checked | None
    checks: int
    """How often the command ran."""


@dataclass(frozen=True)
class MergeReport:
    """What there is to say about a merge."""

    result: MergeResult
    left_out: tuple[LeftOut, ...] = ()
    failed: tuple[Failed, ...] = ()
    verification: Verification | None = None

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
            "not_merged": [*map(_failed_json, self.failed), *map(_left_out_json, self.left_out)],
            "verify": _verification_json(self.verification),
        }

    def to_markdown(self) -> str:
        """As a page."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        result = self.result
        yield from ("# Merge", "", f"{self._verdict()} The base is tree `{result.base.id}`, the result `{result.tree.id}`.", "")
        yield from ("| child | changed | in conflict | left out |", "|---|---|---|---|")
        yield from map(_row, result.per_child)
        if self.failed or self.left_out:
            yield from ("", "## Not merged")
            for one in self.failed:
                yield from (
                    "",
                    f"- {escaped(one.name)}: {escaped(one.status)}. {escaped(' '.join(one.message[:EXCERPT].split()))}",
                )
            for left in self.left_out:
                yield from _left_out(left)
        if self.verification is not None:
            yield from ("", "## Verification", "", *_verification(self.verification))
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
        if missing := len(self.failed) + len(self.left_out):
            return f"**Merged in part**: {missing} {'child was' if missing == 1 else 'children were'} not merged."
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


def printable(text: str) -> list[str]:
    """The lines of a stranger's text, without what a terminal or a page could take for more than text."""
    return ["".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line) for line in text.splitlines()]


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


def _fenced(content: bytes, *, end: bool = False) -> Iterator[str]:
    """A text as a block of code, whose fence is longer than any in it: its beginning, or its end."""
    text = (content[-EXCERPT:] if end else content[:EXCERPT]).decode("utf-8", "replace")
    fence = "`" * (max((len(run[0]) for run in _RUN.finditer(text)), default=2) + 1)
    yield from (fence if len(fence) > 2 else "```", *printable(text), fence if len(fence) > 2 else "```")
    if len(content) > EXCERPT:
        yield f"The {'last' if end else 'first'} {EXCERPT // 1024} KiB of {len(content)} bytes."


def _left_out(one: LeftOut) -> Iterator[str]:
    """One child that was left out, and why."""
    yield ""
    yield f"- {escaped(one.name)}: {one.why}."
    if one.output:
        yield from ("", *_fenced(one.output.encode("utf-8", "replace"), end=True))
    for conflict in one.conflicts[:ROWS]:
        yield f"  - {escaped(shown(conflict.path))}: {conflict.kind}, between {' and '.join(map(escaped, conflict.children))}"
    yield from _more(len(one.conflicts))


def _verification(verification: Verification) -> Iterator[str]:
    checked = verification.checked
    if checked is None:
        ended = "was not run on the result"
    elif checked.ok:
        ended = "passes on the result"
    else:
        ended = f"fails on the base, without anybody's changes{_exit(checked.exit_code)}"
    times = f"{verification.checks} time{'s' * (verification.checks != 1)}"
    yield f"{escaped(verification.command)} {ended}. It ran {times}."
    if checked is not None and not checked.ok and checked.output:
        yield from ("", *_fenced(checked.output.encode("utf-8", "replace"), end=True))


def _exit(code: int | None) -> str:
    return "" if code is None else f" (exit code {code})"


def _failed_json(one: Failed) -> dict[str, Any]:
    return {
        "name": one.name,
        "reason": "failed",
        "status": one.status,
        "message": one.message,
        "exit_code": None,
        "output": "",
        "conflicts": [],
    }


def _left_out_json(one: LeftOut) -> dict[str, Any]:
    return {
        "name": one.name,
        "reason": one.reason,
        "status": None,
        "message": None,
        "exit_code": one.exit_code,
        "output": one.output[-EXCERPT:],
        "conflicts": [*map(_conflict_json, one.conflicts)],
    }


def _verification_json(verification: Verification | None) -> dict[str, Any] | None:
    if verification is None:
        return None
    checked = verification.checked
    return {
        "command": verification.command,
        "ok": checked.ok if checked else None,
        "exit_code": checked.exit_code if checked else None,
        "output": checked.output[-EXCERPT:] if checked else "",
        "checks": verification.checks,
    }


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
