"""What the work of the children of a fan-out came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sandboxes.sandbox import Edit
from sandboxes.workspace.merge import MergeResult
from sandboxes.workspace.merge.report import Verification
from sandboxes.workspace.merge.verified import LeftOut
from sandboxes.workspace.tree import Node, Tree


@dataclass(frozen=True)
class Merged:
    """The merge of those who were not left out."""

    result: MergeResult
    left_out: tuple[LeftOut, ...] = ()
    """Children whose work is not in it."""
    verification: Verification | None = None
    """How it was checked; None where there is no check."""


def edits_of(result: MergeResult) -> list[Edit]:
    """What makes the result of its base."""
    before, after = result.base.entries, result.tree.entries
    paths = [path for path, node in after.items() if before.get(path) != node]
    return [Edit(path, before.get(path), after.get(path)) for path in (*paths, *(before.keys() - after.keys()))]


def settled(result: MergeResult, made: Mapping[str, Node | None]) -> MergeResult:
    """The result with these nodes at paths that were in conflict, and nothing to decide there any more."""
    entries = {path: node for path, node in {**result.tree.entries, **made}.items() if node is not None}
    conflicts = tuple(replace(one, settled=True) if one.path in made else one for one in result.conflicts)
    return replace(result, tree=Tree(entries), conflicts=conflicts)
