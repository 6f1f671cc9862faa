"""Children into their base, one after the other in task order: each is merged with what came of those before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sandboxes.errors import InvalidSpec
from sandboxes.workspace.merge.emptied import Emptied
from sandboxes.workspace.merge.ours import Ours
from sandboxes.workspace.merge.path import PathMerger, Verdict
from sandboxes.workspace.merge.shelf import Shelf
from sandboxes.workspace.merge.stages import Stage, stage
from sandboxes.workspace.merge.text import Labels
from sandboxes.workspace.merge.values import At, Child, ChildResult, Conflict, MergeResult
from sandboxes.workspace.mergepolicy import OpenPolicy, Policy
from sandboxes.workspace.tree import BaseTree, Node, Tree

EVERYTHING: Final = Policy()
"""Everything is merged, and conflicts in texts get markers."""


def merge(base: BaseTree, children: Sequence[Child], policy: Policy = EVERYTHING) -> MergeResult:
    """What all `children` made of `base` together. New contents are written to the base's store.

    The result is a function of the arguments alone: when the children were done does not matter, their order does. Conflicts
    are in the result, and never raised. A child's paths must be such as a tree can hold.
    Raises `InvalidSpec` for two children of one name; `KeyError` when a content that is needed is in no store.
    """
    names = [child.name for child in children]
    if len(set(names)) < len(names):
        raise InvalidSpec(f"two children have the same name: {', '.join(sorted({n for n in names if names.count(n) > 1}))}")
    shelf = Shelf(base.store)
    with policy.opened() as opened:
        fold = _Fold(base, shelf, opened)
        per_child = tuple(fold.add(child) for child in children)
    return fold.result(base, per_child)


class _Fold:
    """The state between two children."""

    def __init__(self, base: BaseTree, shelf: Shelf, policy: OpenPolicy) -> None:
        self._ours = Ours(base)
        self._emptied = Emptied(base)
        self._shelf = shelf
        self._policy = policy
        self._paths = PathMerger(shelf, policy.rule)
        self._authors: dict[str, tuple[str, ...]] = {}
        """The children whose work is at a path."""
        self._marked: dict[str, int] = {}
        """How often markers were written into a file."""
        self._conflicts: list[Conflict] = []
        self._excluded = base.exclude

    def add(self, child: Child) -> ChildResult:
        """Merge one child."""
        self._shelf.admit(child)
        kept = {path: node for path, node in child.changes.items() if self._merges(path)}
        before = len(self._conflicts)
        files = self._emptied.take(child, kept)
        staged = stage(self._ours.base, self._ours.changes, files, self._shelf.get, lambda one: self._combine(one, child.name))
        for path in staged.left:
            if self._ours.get(path) is not None:
                self._ours.put(path, None)
                self._signed((path,), path, child.name)
        for one in staged.stages:
            self._apply(one, child.name)
        met = {conflict.path for conflict in self._conflicts[before:]}
        left_out = child.changes.keys() - kept.keys()
        return ChildResult(child.name, tuple(sorted(kept)), tuple(sorted(met)), tuple(sorted(left_out)))

    def result(self, base: BaseTree, per_child: tuple[ChildResult, ...]) -> MergeResult:
        """What all came to."""
        places = [at.node.blob for one in self._conflicts for at in (one.ours, one.theirs) if at is not None]
        marked = [one.marked for one in self._conflicts if one.marked is not None]
        changed = [node.blob for node in self._ours.changes.values() if node is not None]
        self._shelf.keep([*places, *marked, *changed])
        folders = self._emptied.left(self._ours)
        tree = self._ours.tree()
        if folders:
            tree = Tree({**tree.entries, **folders})
        moved = self._emptied.changed(folders)
        order = [child.name for child in per_child]
        merged = {
            path: tuple(sorted({*self._authors_of([path]), *moved.get(path, ())}, key=order.index))
            for path in sorted(self._ours.changes.keys() | moved.keys())
        }
        return MergeResult(base, tree, self._shelf, merged, tuple(self._conflicts), per_child)

    def _merges(self, path: str) -> bool:
        return self._excluded.isdisjoint(path.split("/")) and self._policy.merges(path)

    def _combine(self, one: Stage, name: str) -> At | None:
        """A file that one side moved to where the other has another one, with what the other did to it."""
        verdict = self._judge(one, name)
        return At(one.path, verdict.node) if verdict.node is not None else None

    def _apply(self, one: Stage, name: str) -> None:
        verdict = self._judge(one, name)
        if verdict.kind == "rename/rename":
            self._apply_both_moved(one, verdict, name)
            return
        takes_part = verdict.holds != "ours" or self._ours.get(one.path) != verdict.node  # or it has moved what is of ours
        if self._put(one.path, verdict.node, name) and takes_part:
            self._signed(_paths(one), one.path, name)

    def _apply_both_moved(self, one: Stage, verdict: Verdict, name: str) -> None:
        """Ours stays where ours moved it; theirs lies where theirs did, in its place or (union) beside it."""
        assert one.ours is not None
        assert one.theirs is not None
        choice = verdict.rule.choice if verdict.rule else None
        if choice not in ("theirs", "union"):
            return
        if choice == "theirs":
            self._ours.put(one.ours.path, None)
        if self._ours.get(one.theirs.path) is None and self._put(one.theirs.path, one.theirs.node, name):
            self._signed(_paths(one), one.theirs.path, name)

    def _judge(self, one: Stage, name: str) -> Verdict:
        """What a stage comes to; a conflict is noted."""
        authors = self._authors_of(_paths(one))
        labels = Labels("base", " + ".join(authors), name, self._marked.get(one.path, 0))
        verdict = self._paths.merge(one, labels)
        if verdict.kind is None:
            return verdict
        assert verdict.rule is not None
        rule = verdict.rule
        if verdict.node is not None and verdict.node.blob == verdict.marked:
            self._marked[one.path] = self._marked.get(one.path, 0) + 1
        children = (*(author for author in authors if author != name), name)
        self._conflicts.append(
            Conflict(
                one.path, verdict.kind, one.base, one.ours, one.theirs, children,
                rule.choice, verdict.settled, verdict.marked, rule.command,
            )
        )  # fmt: skip
        return verdict

    def _put(self, path: str, node: Node | None, name: str) -> bool:
        """Put a node at a path, unless a file would be where a folder is: that is a conflict, and what was there stays."""
        if node is not None and self._ours.get(path) is None:
            above = self._ours.file_above(path)
            if above is not None or self._ours.is_folder(path):
                self._file_and_folder(At(path, node), above, name)
                return False
        self._ours.put(path, node)
        return True

    def _file_and_folder(self, theirs: At, above: At | None, name: str) -> None:
        rule = self._policy.rule(theirs.path)
        authors = self._authors_of([above.path] if above else self._below(theirs.path))
        children = (*(author for author in authors if author != name), name)
        conflict = Conflict(theirs.path, "file/folder", None, above, theirs, children, rule.choice, rule.choice == "ours")
        self._conflicts.append(conflict)

    def _below(self, folder: str) -> list[str]:
        return sorted(path for path, node in self._ours.changes.items() if node is not None and path.startswith(f"{folder}/"))

    def _authors_of(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(author for path in paths for author in self._authors.get(path, ())))

    def _signed(self, sources: Iterable[str], path: str, name: str) -> None:
        """Note that a child's work is at a path now, besides that of whoever worked on what it is made of."""
        self._authors[path] = tuple(dict.fromkeys((*self._authors_of(sources), name)))


def _paths(one: Stage) -> list[str]:
    """All paths that a stage is about."""
    sides = (at.path for at in (one.base, one.ours, one.theirs) if at is not None)
    return list(dict.fromkeys((*sides, one.path)))
