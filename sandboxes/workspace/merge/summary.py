"""What became of one child's changes in a merge, in a few sentences for a model. Names are strangers', and shown as such."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sandboxes.workspace.merge.report import printable
from sandboxes.workspace.merge.values import Conflict, MergeResult
from sandboxes.workspace.merge.verified import LeftOut
from sandboxes.workspace.names import shown

NAMED: Final = 10
"""Paths, or children, that a sentence names."""
SAID: Final = 4000
"""Characters of a check's output that are shown: its end."""


def merge_summary(result: MergeResult, left_out: Sequence[LeftOut], name: str) -> str:
    """What was merged of one child, and what was not and why. Raises `KeyError` for a child that is in neither."""
    for one in left_out:
        if one.name == name:
            return _left_out(one)
    child = next((child for child in result.per_child if child.name == name), None)
    if child is None:
        raise KeyError(name)
    met = [conflict for conflict in result.conflicts if conflict.children[-1] == name]
    waiting = [conflict for conflict in met if not conflict.settled]
    open_paths = {conflict.path for conflict in waiting}
    merged = [shown(path) for path in child.changed if path not in open_paths]
    sentences = [f"Merged: {_files(merged)}." if child.changed else "Merged: it changed nothing."]
    if settled := [f"{shown(conflict.path)} ({conflict.choice})" for conflict in met if conflict.settled]:
        sentences.append(f"Conflicts that the policy settled: {listed(settled)}.")
    if waiting:
        sentences.append(_in_conflict(waiting, name))
    if child.left_out:
        sentences.append(f"Left out, as the policy says: {_files([*map(shown, child.left_out)])}.")
    return " ".join(sentences)


def listed(names: Iterable[str]) -> str:
    """The first few of some names, and how many there are besides."""
    known = list(names)
    return ", ".join(known[:NAMED]) + (f" and {len(known) - NAMED} more" if len(known) > NAMED else "")


def _left_out(one: LeftOut) -> str:
    sentence = f"Nothing of it was merged: {one.why}."
    if one.reason == "conflict":
        return f"{sentence} {_in_conflict(one.conflicts, one.name)}"
    if one.reason == "undecided" or not one.output:
        return sentence
    said = "\n".join(printable(one.output[-SAID:]))
    return f"{sentence} The check said, in the end:\n{said}"


def _in_conflict(conflicts: Sequence[Conflict], name: str) -> str:
    return f"In conflict: {listed(map(_met, conflicts))}. All sides are in {shown(f'/conflicts/{name}/')}."


def _met(conflict: Conflict) -> str:
    others = listed(map(shown, conflict.children[:-1]))
    return f"{shown(conflict.path)} ({conflict.kind}{f', with {others}' if others else ''})"


def _files(paths: Sequence[str]) -> str:
    number = f"{len(paths)} file{'s' * (len(paths) != 1)}"
    return f"{number} ({listed(paths)})" if paths else number
