"""Empty folders in a merge. Git knows none, so they never conflict: files are merged as if there were none, and what is then
still empty stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sandboxes.workspace.manifest import EMPTY_FOLDER, FOLDER
from sandboxes.workspace.merge.ours import Ours
from sandboxes.workspace.merge.values import Changes, Child
from sandboxes.workspace.names import parents
from sandboxes.workspace.tree import Node, Tree


class Emptied:
    """The folders that are empty by the word of the base and of the children so far."""

    def __init__(self, base: Tree) -> None:
        self._files = base.files
        self._base = {path for path, node in base.entries.items() if node.mode == FOLDER}
        self._now = set(self._base)
        self._authors: dict[str, list[str]] = {}

    def take(self, child: Child, changes: Changes) -> Changes:
        """Note what those `changes` of a child that are merged say of empty folders; returns what they do to files.

        A folder that the child filled with what is not merged is not gone.
        """
        about = {path for path, node in changes.items() if path in self._base or (node is not None and node.mode == FOLDER)}
        if not about:
            return changes
        filled = _above(path for path, node in child.changes.items() if node is not None)
        for path in about:
            if (node := changes[path]) is not None and node.mode == FOLDER:
                self._now.add(path)
            elif path not in filled:
                self._now.discard(path)
            self._authors.setdefault(path, []).append(child.name)
        return {path: self._file(node) for path, node in changes.items() if path in self._files or self._file(node) is not None}

    def left(self, ours: Ours) -> dict[str, Node]:
        """The folders that nothing in the merged files is at, above or below."""
        holding = _above(self._now)
        empty = sorted(path for path in self._now - holding if not _is_taken(ours, path))
        return {path: Node(FOLDER, EMPTY_FOLDER, 0) for path in empty}

    def changed(self, left: Iterable[str]) -> Mapping[str, list[str]]:
        """For each path that is an empty folder in the base or the result, but not in both: whose doing it is."""
        return {path: self._authors.get(path, []) for path in self._base.symmetric_difference(left)}

    @staticmethod
    def _file(node: Node | None) -> Node | None:
        return None if node is None or node.mode == FOLDER else node


def _above(paths: Iterable[str]) -> set[str]:
    return {folder for path in paths for folder in parents(path)}


def _is_taken(ours: Ours, path: str) -> bool:
    return ours.get(path) is not None or ours.file_above(path) is not None or ours.is_folder(path)
