"""One path: what comes of three sides of it, by the rules of Git."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from sandboxes.workspace.manifest import LINK
from sandboxes.workspace.merge.drivers import driver_for
from sandboxes.workspace.merge.shelf import Shelf
from sandboxes.workspace.merge.stages import Stage
from sandboxes.workspace.merge.text import Labels, Texts, is_text
from sandboxes.workspace.merge.values import Kind, is_file, same_type
from sandboxes.workspace.mergepolicy import Rule
from sandboxes.workspace.tree import Node

_T = TypeVar("_T")

Held = Literal["ours", "theirs", "both"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one stage comes to."""

    node: Node | None
    """What is to lie at the stage's path."""
    holds: Held
    """Whose work that is."""
    kind: Kind | None = None
    """The conflict, if there is one."""
    settled: bool = True
    marked: str | None = None
    """The blob of the text with conflict markers."""
    rule: Rule | None = None
    """The one that was asked, if there is a conflict."""


class PathMerger:
    """Merges one stage after the other."""

    def __init__(self, shelf: Shelf, rule: Callable[[str], Rule]) -> None:
        self._shelf, self._rule, self._texts = shelf, rule, Texts()

    def merge(self, stage: Stage, labels: Labels) -> Verdict:
        """What a stage comes to. Contents are read only where both sides changed them, and differently."""
        base, ours, theirs = (at.node if at else None for at in (stage.base, stage.ours, stage.theirs))
        if stage.kind is not None:
            return self._undecided(stage, stage.kind)
        if ours == theirs:
            return Verdict(ours, "both")
        if theirs == base:
            return Verdict(ours, "ours")
        if ours == base:
            return Verdict(theirs, "theirs")
        if ours is None or theirs is None:
            return self._undecided(stage, "modify/delete")
        if (kind := _unlike(ours, theirs)) is not None:
            return self._undecided(stage, kind)
        return self._files(stage, base if base and is_file(base) else None, ours, theirs, labels)

    def _undecided(self, stage: Stage, kind: Kind) -> Verdict:
        """A conflict over whole nodes: one side is taken, ours unless the policy says theirs."""
        rule = self._rule(stage.path)
        side = stage.theirs if rule.choice == "theirs" else stage.ours
        holds: Held = "theirs" if rule.choice == "theirs" else "ours"
        return Verdict(side.node if side else None, holds, kind, rule.choice in ("ours", "theirs"), rule=rule)

    def _files(self, stage: Stage, base: Node | None, ours: Node, theirs: Node, labels: Labels) -> Verdict:
        blob = _changed_once(base.blob if base else None, ours.blob, theirs.blob)
        if blob is None:
            verdict = self._contents(stage, base, ours, theirs, labels)
        else:
            verdict = Verdict(ours if blob == ours.blob else theirs, "both")
        mode = _changed_once(base.mode if base else None, ours.mode, theirs.mode)
        if verdict.node is None or (verdict.rule is not None and verdict.rule.command):
            return verdict
        if mode is not None:
            return _with_mode(verdict, mode)
        rule = self._rule(stage.path)
        verdict = _with_mode(verdict, theirs.mode if rule.choice == "theirs" else ours.mode)
        settled = verdict.settled and rule.choice in ("ours", "theirs")
        return Verdict(verdict.node, verdict.holds, verdict.kind or "mode", settled, verdict.marked, rule)

    def _contents(self, stage: Stage, base: Node | None, ours: Node, theirs: Node, labels: Labels) -> Verdict:
        """Both sides changed the content. `base` is None where there was no file."""
        rule = self._rule(stage.path)
        if rule.command is not None:
            return Verdict(ours, "ours", "content" if base else "add/add", False, rule=rule)
        sides = (self._shelf.get(base.blob) if base else None, self._shelf.get(ours.blob), self._shelf.get(theirs.blob))
        if not all(is_text(side) for side in sides if side is not None):
            return self._undecided(stage, "binary")
        text = self._texts.merge(*sides)
        if text is None and (by_key := driver_for(rule.driver, stage.path)) is not None:
            text = by_key(*sides)
        if text is not None:
            return Verdict(self._node(ours, text), "both")
        return self._lines(rule, ours, sides, labels, "content" if base else "add/add")

    def _lines(self, rule: Rule, ours: Node, sides: tuple[bytes | None, bytes, bytes], labels: Labels, kind: Kind) -> Verdict:
        """Texts whose lines conflict."""
        marked = self._texts.mark(*sides, labels)
        blob = self._shelf.put(marked)
        if rule.choice == "markers":
            return Verdict(Node(ours.mode, blob, len(marked)), "both", kind, False, blob, rule)
        if rule.choice == "fail" or rule.choice == "ask":
            return Verdict(ours, "ours", kind, False, blob, rule)
        return Verdict(self._node(ours, self._texts.favour(rule.choice, *sides)), "both", kind, True, blob, rule)

    def _node(self, like: Node, content: bytes) -> Node:
        return Node(like.mode, self._shelf.put(content), len(content))


def _changed_once(base: _T | None, ours: _T, theirs: _T) -> _T | None:
    """What two sides come to when at most one of them changed it, or both to the same; else None."""
    if ours == theirs or theirs == base:
        return ours
    return theirs if ours == base else None


def _with_mode(verdict: Verdict, mode: str) -> Verdict:
    node = verdict.node
    assert node is not None
    changed = Node("100755" if mode == "100755" else "100644", node.blob, node.size)
    return Verdict(changed, verdict.holds, verdict.kind, verdict.settled, verdict.marked, verdict.rule)


def _unlike(ours: Node, theirs: Node) -> Kind | None:
    """Why two nodes cannot be merged at all."""
    if not same_type(ours, theirs):
        return "type"
    if is_file(ours):
        return None
    return "link" if ours.mode == LINK else "submodule"
