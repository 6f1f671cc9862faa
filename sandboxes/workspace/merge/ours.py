"""What the children so far have come to together: the base, and every path that is not as there."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from sandboxes.workspace.merge.values import At
from sandboxes.workspace.names import parents
from sandboxes.workspace.tree import Node, Tree


class Ours:
    """The files of a tree that changes. It costs as much as is changed in it, and once as much as the base when something is
    added."""

    def __init__(self, base: Tree) -> None:
        self.base = base.files
        self.changes: dict[str, Node | None] = {}
        """Every path that is not as in the base."""

    def get(self, path: str) -> Node | None:
        """What is at a path."""
        return self.changes[path] if path in self.changes else self.base.get(path)

    def put(self, path: str, node: Node | None) -> None:
        """Put something, or nothing, at a path."""
        before = self.get(path)
        if (before is None) != (node is None) and "_folders" in self.__dict__:
            self._count(path, -1 if node is None else 1)
        if node == self.base.get(path):
            self.changes.pop(path, None)
        else:
            self.changes[path] = node

    def file_above(self, path: str) -> At | None:
        """The file (or link) that is where a path needs a folder."""
        for folder in parents(path):
            if (node := self.get(folder)) is not None:
                return At(folder, node)
        return None

    def is_folder(self, path: str) -> bool:
        """Whether there is anything below a path."""
        return self._folders[path] > 0

    def tree(self) -> Tree:
        """As a value."""
        entries = dict(self.base)
        for path, node in self.changes.items():
            if node is None:
                del entries[path]
            else:
                entries[path] = node
        return Tree(entries)

    @cached_property
    def _folders(self) -> Counter[str]:
        """How many files are below each folder."""
        counts: Counter[str] = Counter()
        for path in self.tree().entries:
            counts.update(parents(path))
        return counts

    def _count(self, path: str, change: int) -> None:
        for folder in parents(path):
            self._folders[folder] += change
