"""What three sides have at each path that a merge has to look at, after renames: Git's stages 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sandboxes.workspace.merge.renames import Read, find_renames
from sandboxes.workspace.merge.values import At, Changes, Kind, is_file, same_type
from sandboxes.workspace.tree import Node

Side = Literal["ours", "theirs"]
_OTHER: Mapping[Side, Side] = {"ours": "theirs", "theirs": "ours"}


@dataclass(frozen=True, slots=True)
class Stage:
    """Three sides of one file. What comes of it is to lie at `path`."""

    path: str
    base: At | None
    ours: At | None
    theirs: At | None
    kind: Kind | None = None
    """A conflict that is known without looking at contents."""

    def at(self, side: Side) -> At | None:
        """What one side has."""
        return self.ours if side == "ours" else self.theirs


@dataclass(frozen=True)
class Staged:
    """What one child brings: stages in order, and paths that are empty once a rename is followed."""

    stages: list[Stage]
    left: list[str]


Combine = Callable[[Stage], At | None]
"""Merges a stage whose result is only one side of another one."""


def stage(base: Mapping[str, Node], ours: Changes, theirs: Changes, read: Read, combine: Combine) -> Staged:
    """The stages of one child's changes (`theirs`) against those made before (`ours`). Costs as much as there are changes."""
    staging = _Staging(base, ours, theirs, combine)
    moved_ours = _renames(base, ours, {path for path in theirs if path in base and ours.get(path, base[path]) is None}, read)
    gone = {path for path, node in theirs.items() if node is None and path in ours and path in base}
    moved_theirs = _renames(base, theirs, gone, read)
    for source in sorted(moved_ours.keys() | moved_theirs.keys()):
        to_ours, to_theirs = moved_ours.get(source), moved_theirs.get(source)
        if to_ours is not None and to_theirs is not None:
            staging.both_moved(source, to_ours, to_theirs)
        elif to_ours is not None:
            staging.moved(source, to_ours, "ours")
        elif to_theirs is not None:
            staging.moved(source, to_theirs, "theirs")
    return staging.done()


def _renames(base: Mapping[str, Node], changes: Changes, wanted: set[str], read: Read) -> dict[str, str]:
    """Renames on one side, of files that the other side touched: no other rename changes what a merge comes to."""
    if not wanted:
        return {}
    gone = {path: base[path] for path, node in changes.items() if node is None and path in base}
    new = {path: node for path, node in changes.items() if node is not None and path not in base}
    return find_renames(gone, new, wanted, read)


class _Staging:
    """The stages while renames are followed."""

    def __init__(self, base: Mapping[str, Node], ours: Changes, theirs: Changes, combine: Combine) -> None:
        self._base, self._ours, self._theirs, self._combine = base, ours, theirs, combine
        self._stages = {path: self._new(path) for path in theirs}
        self._left: list[str] = []

    def _new(self, path: str) -> Stage:
        base = self._base.get(path)
        ours, theirs = self._ours.get(path, base), self._theirs.get(path, base)
        return Stage(path, _at(path, base), _at(path, ours), _at(path, theirs))

    def _take(self, path: str) -> Stage:
        return self._stages.pop(path, None) or self._new(path)

    def both_moved(self, source: str, to_ours: str, to_theirs: str) -> None:
        """Both sides moved a file: to the same path it is one file there, else a conflict at its old path."""
        origin = self._take(source).base
        if to_ours == to_theirs:
            self._stages[to_ours] = replace(self._take(to_ours), base=origin)
            self._left.append(source)
            return
        ours, theirs = self._new(to_ours).ours, self._new(to_theirs).theirs
        if self._stages[to_theirs].ours is None:  # else ours has made another file there, which is a conflict of its own
            del self._stages[to_theirs]
        self._stages[source] = Stage(source, origin, ours, theirs, "rename/rename")

    def moved(self, source: str, target: str, side: Side) -> None:
        """One side moved a file: what the other did with it happens at its new path."""
        origin, there = self._take(source), self._take(target)
        elsewhere, here = origin.at(_OTHER[side]), there.at(_OTHER[side])
        if elsewhere is None:
            self._stages[target] = replace(there, base=origin.base, kind="rename/delete")
        elif origin.base is not None and is_file(elsewhere.node) != is_file(origin.base.node):
            self._stages[source] = replace(origin, base=None)  # a new thing, which only happens to be there
            self._stages[target] = replace(there, base=origin.base, kind=None if here else "rename/delete")  # here: moved, too
            return
        elif here is None:
            kind: Kind | None = "type" if origin.base and not same_type(elsewhere.node, origin.base.node) else None
            self._stages[target] = _with(replace(there, base=origin.base, kind=kind), _OTHER[side], elsewhere)
        else:
            own = _with(replace(there, base=origin.base), _OTHER[side], elsewhere)
            self._stages[target] = _with(there, side, self._combine(own))
        self._left.append(source)

    def done(self) -> Staged:
        """What was staged: first what goes, so that a folder can take the place of a file."""
        ordered = sorted(self._stages.values(), key=lambda one: (one.theirs is not None, one.path))
        return Staged(ordered, self._left)


def _at(path: str, node: Node | None) -> At | None:
    return None if node is None else At(path, node)


def _with(stage: Stage, side: Side, at: At | None) -> Stage:
    return replace(stage, ours=at) if side == "ours" else replace(stage, theirs=at)
