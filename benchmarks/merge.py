"""`python -m benchmarks.merge`: the merge of many children beside the time that `git merge-tree` takes for the same."""

from __future__ import annotations

import io
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pygit2

from benchmarks.measure import Config, Row, compare, run
from sandboxes.workspace.merge import Child, MergeResult, merge
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tarwriter import TarWriter
from sandboxes.workspace.tree import BaseTree, Node

ROUNDS = 10
TARGET = 0.667
"""The peer's time over ours: we may take one and a half times as long."""
LINES = 60
PER_FOLDER = 50
_AUTHOR = pygit2.Signature("bench", "bench@localhost", 0, 0)


@dataclass(frozen=True)
class Size:
    """How much is merged."""

    files: int = 20_000
    children: int = 100
    changed: int = 100
    """Files that each child changes."""


async def bench(config: Config) -> list[Row]:
    """Children that changed files of their own, and children that changed any."""
    size = Size(1000, 5, 20) if config.quick else Size()
    rows = []
    for what, choose in (("files of their own", own), ("any files", any_of)):
        with tempfile.TemporaryDirectory(prefix="ff-bench-") as place:
            world = World(Path(place), size, choose)
            times = await compare(world.ours, world.peer, rounds=config.rounds(ROUNDS), ours_each=1, peer_each=1)
            rows.append(Row(f"{size.children} x {size.changed} of {size.files}, {what}", "ms", *times, at_least=TARGET))
    return rows


def own(number: int, size: Size) -> list[int]:
    """Spread over all folders, as work is."""
    return [number + size.children * index for index in range(size.changed)]


def any_of(number: int, size: Size) -> list[int]:
    """Files that other children may change, too."""
    return random.Random(number).sample(range(size.files), size.changed)


class World:
    """A base with children, as a sandbox's workspaces are kept, and the same in a repository of Git's."""

    def __init__(self, place: Path, size: Size, choose: Callable[[int, Size], list[int]]) -> None:
        self.base = _base(place, size)
        self.children = [self._child(number, choose(number, size)) for number in range(size.children)]
        self._git = _Git(place / "git", self.base, self.children)

    def ours(self) -> MergeResult:
        """All children, by us."""
        return merge(self.base, self.children)

    def peer(self) -> None:
        """The same merges, one after the other, in one process of Git's."""
        self._git.merge()

    def _child(self, number: int, files: list[int]) -> Child:
        changes: dict[str, Node | None] = {}
        for file in files:
            lines = _content(file).splitlines(keepends=True)
            lines[number * 7 % LINES] = b"child %d was here\n" % number
            content = b"".join(lines)
            changes[_path(file)] = Node("100644", self.base.store.put(content), len(content))
        return Child(f"child {number}", changes, self.base.store)


class _Git:
    """Each child's commit, and before it the commit of what came of those before it: what is merged is then known."""

    def __init__(self, folder: Path, base: BaseTree, children: list[Child]) -> None:
        self._folder = folder
        self._repository = pygit2.init_repository(str(folder), bare=True)
        index = pygit2.Index()
        for path, node in base.entries.items():
            self._add(index, path, node, base.store)
        root = ours = self._commit(index.write_tree(self._repository), [])
        self._pairs: list[str] = []
        for child in children:
            theirs = self._child(child, base, index, root)
            self._pairs.append(f"{ours} {theirs}\n")
            ours = self._commit(pygit2.Oid(hex=next(self._merged(self._pairs[-1:]))), [root])
        subprocess.run(["git", "repack", "-adq"], cwd=folder, check=True)

    def merge(self) -> None:
        """All of them. Raises when one was not answered."""
        if sum(1 for _ in self._merged(self._pairs)) != len(self._pairs):
            raise RuntimeError("git merge-tree left out some merges")

    def _merged(self, pairs: list[str]) -> Iterator[str]:
        """The id of the tree of each merge."""
        command = ["git", "merge-tree", "--write-tree", "--stdin", "--no-messages", "--name-only"]
        done = subprocess.run(command, cwd=self._folder, input="".join(pairs).encode(), capture_output=True, check=True)
        fields = iter(done.stdout.split(b"\0"))
        for status in fields:
            if status:
                yield next(fields).decode()
                for _ in iter(lambda: next(fields), b""):
                    pass

    def _child(self, child: Child, base: BaseTree, index: pygit2.Index, root: pygit2.Oid) -> pygit2.Oid:
        for path, node in child.changes.items():
            assert node is not None
            self._add(index, path, node, base.store)
        commit = self._commit(index.write_tree(self._repository), [root])
        for path in child.changes:
            self._add(index, path, base.entries[path], base.store)
        return commit

    def _add(self, index: pygit2.Index, path: str, node: Node, store: BlobStore) -> None:
        if node.blob not in self._repository:
            self._repository.create_blob(store.get(node.blob))
        index.add(pygit2.IndexEntry(path, pygit2.Oid(hex=node.blob), pygit2.enums.FileMode.BLOB))

    def _commit(self, tree: pygit2.Oid, parents: list[pygit2.Oid]) -> pygit2.Oid:
        return self._repository.create_commit(None, _AUTHOR, _AUTHOR, "bench", tree, parents)


def _base(place: Path, size: Size) -> BaseTree:
    with (place / "base.tar").open("w+b") as file:
        out = TarWriter(file)
        for number in range(size.files):
            content = _content(number)
            out.file(_path(number), len(content), io.BytesIO(content).read)
        out.close()
    return BaseTree.from_tar(place / "base.tar", place / "store")


def _path(number: int) -> str:
    return f"part{number // PER_FOLDER // PER_FOLDER}/module{number // PER_FOLDER}/file{number}.py"


def _content(number: int) -> bytes:
    return b"".join(b"file %d, line %d of it\n" % (number, line) for line in range(LINES))


BENCH = {"merge: ours / git merge-tree": bench}

if __name__ == "__main__":
    run(BENCH)
