"""Small merges for tests: workspaces as dictionaries, and what came of them as the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandboxes.workspace.manifest import EMPTY_FOLDER
from sandboxes.workspace.merge import Child, Choice, Conflict, MergeResult, Policy, Rule, merge
from sandboxes.workspace.names import to_text
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tree import BaseTree, Node, Tree
from tests.unit.sandboxes.workspace.merge.histories import SUBMODULE
from tests.unit.sandboxes.workspace.trees import FILE, FOLDER, Files

LINES = b"".join(b"line %d\n" % number for number in range(10))


def file(content: bytes, mode: str = FILE) -> tuple[str, bytes]:
    return mode, content


def always(choice: Choice) -> Policy:
    return Policy((Rule("**", choice),))


@dataclass(frozen=True)
class Came:
    """What came of a merge."""

    result: MergeResult

    @property
    def files(self) -> dict[bytes, tuple[str, bytes]]:
        entries = self.result.tree.entries.items()
        return {path.encode("utf-8", "surrogateescape"): (node.mode, self.content(node)) for path, node in entries}

    @property
    def conflict(self) -> Conflict:
        [conflict] = self.result.conflicts
        return conflict

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(conflict.path, conflict.kind) for conflict in self.result.conflicts]

    def content(self, node: Node) -> bytes:
        if node.mode == FOLDER:
            return b""
        return node.blob.encode() if node.mode == SUBMODULE else self.result.contents.get(node.blob)


class World:
    """Workspaces whose contents lie in one store."""

    def __init__(self, folder: Path) -> None:
        self.store = BlobStore(folder / "store")

    def tree(self, files: Files) -> Tree:
        return Tree({to_text(path): self._node(*node) for path, node in files.items()})

    def base(self, files: Files) -> BaseTree:
        return BaseTree(self.tree(files).entries, store=self.store)

    def merge(self, base: Files, *sides: Files, policy: Policy | None = None, names: str = "ABCDEFGH") -> Came:
        """Children named A, B, C ... whose workspaces these are, folded into the base."""
        root = self.base(base)
        children = [Child.of(name, root, self.tree(side), self.store) for name, side in zip(names, sides, strict=False)]
        return Came(merge(root, children, policy or Policy()))

    def _node(self, mode: str, content: bytes) -> Node:
        if mode == FOLDER:
            return Node(FOLDER, EMPTY_FOLDER, 0)
        blob = content.decode() if mode == SUBMODULE else self.store.put(content)
        return Node(mode, blob, 0 if mode == SUBMODULE else len(content))  # type: ignore[arg-type]
