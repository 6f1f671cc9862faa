"""What `git merge-tree` makes of histories, in one process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pygit2

from sandboxes.workspace.names import to_text
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tree import BaseTree, Node, Tree
from tests.unit.sandboxes.workspace.merge.differences import GIT_CONFIG
from tests.unit.sandboxes.workspace.merge.histories import SUBMODULE
from tests.unit.sandboxes.workspace.trees import Files

_AUTHOR = pygit2.Signature("tester", "tester@localhost", 0, 0)


@dataclass(frozen=True)
class Merged:
    """Git's answer."""

    clean: bool
    tree: str
    """The id of the tree."""
    paths: frozenset[str]
    """Paths in conflict."""


class Gits:
    """A bare repository with the histories in it."""

    def __init__(self, folder: Path) -> None:
        self.repository = pygit2.init_repository(str(folder), bare=True)
        self._folder = folder
        self.store = BlobStore(folder)
        self._blobs: dict[bytes, str] = {}

    def tree(self, files: Files) -> Tree:
        """A workspace as a tree, its contents in the repository."""
        return Tree({to_text(path): self._node(*node) for path, node in files.items()})

    def base(self, files: Files) -> BaseTree:
        """The same, as a base."""
        return BaseTree(self.tree(files).entries, store=self.store)

    def _node(self, mode: str, content: bytes) -> Node:
        if mode == SUBMODULE:
            return Node(SUBMODULE, content.decode(), 0)  # type: ignore[arg-type]
        if content not in self._blobs:
            self._blobs[content] = str(self.repository.create_blob(content))
        return Node(mode, self._blobs[content], len(content))  # type: ignore[arg-type]

    def commit(self, tree: Tree, *parents: str) -> str:
        """The id of a commit of a tree."""
        index = pygit2.Index()
        for path, node in tree.entries.items():
            index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=node.blob), int(node.mode, 8)))  # type: ignore[arg-type]
        written = index.write_tree(self.repository)
        return str(self.repository.create_commit(None, _AUTHOR, _AUTHOR, "x", written, [pygit2.Oid(hex=p) for p in parents]))

    def sides(self, base: Tree, ours: Tree, theirs: Tree) -> tuple[str, str]:
        """Commits of both sides, on one of the base."""
        root = self.commit(base)
        return self.commit(ours, root), self.commit(theirs, root)

    def merge(self, pairs: Iterable[tuple[str, str]]) -> list[Merged]:
        """Git's answers for pairs of commits."""
        asked = "".join(f"{ours} {theirs}\n" for ours, theirs in pairs)
        command = ["git", *GIT_CONFIG, "merge-tree", "--write-tree", "--stdin", "--no-messages"]
        done = subprocess.run(command, cwd=self._folder, input=asked.encode(), capture_output=True, check=True, timeout=100)
        return list(_answers(done.stdout))

    def files(self, tree: str) -> dict[str, tuple[int, str]]:
        """What is in a tree of Git's: mode and id by path."""
        index = pygit2.Index()
        index.read_tree(self.repository[tree])
        return {entry.path: (int(entry.mode), str(entry.id)) for entry in index}


def _answers(output: bytes) -> Iterator[Merged]:
    fields = iter(output.split(b"\0"))
    for status in fields:
        if not status:
            return
        tree = next(fields).decode()
        paths = frozenset(to_text(entry.split(b"\t", 1)[1]) for entry in iter(lambda: next(fields), b""))
        yield Merged(status == b"1", tree, paths)
