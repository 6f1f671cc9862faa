"""What a merge is about, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from sandboxes.workspace.manifest import FOLDER, LINK
from sandboxes.workspace.mergepolicy import Choice
from sandboxes.workspace.tree import SUBMODULE, Node, Tree

Changes = Mapping[str, Node | None]
"""What is at a path now, for each path where it is not what the base has. None: nothing."""

Kind = Literal[
    "content", "binary", "add/add", "modify/delete", "mode", "type", "link", "submodule",
    "rename/delete", "rename/rename", "file/folder",
]  # fmt: skip
"""What two sides disagree about.

- content: the same lines of a text. binary: a file that is no text (a NUL byte early in it), or too large to be merged.
- add/add: both made a file at this path, or moved one there, with different contents.
- modify/delete: one changed what the other removed. mode: both made a file, one of them executable.
- type: one has a file where the other has a link or a submodule. link, submodule: both changed where it points.
- rename/delete: one moved what the other removed or made another thing of. rename/rename: both moved the same file, to
  different places.
- file/folder: one has a file where the other has a folder.
"""


def is_file(node: Node) -> bool:
    """Whether a node is a file, executable or not."""
    return node.mode not in (LINK, SUBMODULE, FOLDER)


def same_type(one: Node, other: Node) -> bool:
    """Whether two nodes are things of one type: file, link or submodule."""
    return one.mode == other.mode or (is_file(one) and is_file(other))


class Contents(Protocol):
    """Where contents are had from."""

    def get(self, blob: str) -> bytes:
        """The content of a blob. Raises `KeyError` for one that is not there."""
        ...


@dataclass(frozen=True)
class Child:
    """One that started from the base, what it changed, and where to find the contents of that."""

    name: str
    changes: Changes
    contents: Contents

    @classmethod
    def of(cls, name: str, base: Tree, tree: Tree, contents: Contents) -> Child:
        """A child by the whole state that it left."""
        before = base.entries
        changes: dict[str, Node | None] = {path: node for path, node in tree.entries.items() if before.get(path) != node}
        changes.update(dict.fromkeys(before.keys() - tree.entries.keys()))
        return cls(name, changes, contents)


@dataclass(frozen=True, slots=True)
class At:
    """What one side has, and where: after a rename the sides have the same file at different paths."""

    path: str
    node: Node


@dataclass(frozen=True, slots=True)
class Conflict:
    """What could not be merged. `ours` is what the children before had come to together, `theirs` what the last of
    `children` has; None is nothing."""

    path: str
    kind: Kind
    base: At | None
    ours: At | None
    theirs: At | None
    children: tuple[str, ...]
    """Those whose changes met here, in task order."""
    choice: Choice
    """What the policy says about this path."""
    settled: bool
    """Whether the policy has decided it; otherwise somebody has to."""
    marked: str | None = None
    """Of a text: the blob with conflict markers, whatever the tree holds."""
    command: str | None = None
    """The file is to be made anew by this command, as it is not a thing to be merged."""


@dataclass(frozen=True)
class ChildResult:
    """What became of one child's changes, by path."""

    name: str
    changed: tuple[str, ...]
    """All that it changed and that was looked at."""
    conflicts: tuple[str, ...]
    """Paths at which it met another child's changes and the two did not fit."""
    left_out: tuple[str, ...]
    """What it changed and the policy excludes. It is nowhere in the result."""


@dataclass(frozen=True)
class MergeResult:
    """The tree that all children came to together, and what is to be said about it."""

    base: Tree
    tree: Tree
    contents: Contents
    """Of all nodes in the tree and in the conflicts."""
    merged: Mapping[str, tuple[str, ...]]
    """For each path that is not as in the base: the children whose work is in it, in task order."""
    conflicts: tuple[Conflict, ...]
    """In the order in which they were met."""
    per_child: tuple[ChildResult, ...]

    @property
    def changes(self) -> Changes:
        """What makes the tree of the base."""
        return {path: self.tree.entries.get(path) for path in self.merged}

    @property
    def clean(self) -> bool:
        """Whether nothing is left to be decided."""
        return all(conflict.settled for conflict in self.conflicts)

    @property
    def refused(self) -> bool:
        """Whether a policy says `fail` about a conflict: the tree is not to be used."""
        return any(conflict.choice == "fail" and not conflict.settled for conflict in self.conflicts)
