"""Changes to a tree as one file, with their contents: a tar whose first member says in JSON what became of each path, and whose
others are the contents by their blob ids. So no name of a workspace is ever a name of the tar.

`pack` writes what a sandbox has changed; `write_plan` what is to be done to a tree, with what is there before and whatever else
its writer has to know. `read_pack` reads both.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Final, cast

from sandboxes.errors import ArchiveRefused, PatchRefused
from sandboxes.workspace.manifest import FOLDER, FileEntry, Mode, check_manifest
from sandboxes.workspace.merge.values import Changes, Contents
from sandboxes.workspace.names import BadName, shown, split
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tarwriter import TarWriter
from sandboxes.workspace.tree import BaseTree, Node, Tree

INDEX_CAP: Final = 256 * 1024**2
"""Bytes of the JSON."""

_INDEX: Final = "changes.json"
_VERSION: Final = 1
_ID: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class PackedChanges:
    """What a pack says. The file must stay as it is as long as `contents` is in use."""

    base: str
    """The id of the tree that was changed."""
    changes: Changes
    contents: Contents
    """Of all nodes in `changes`."""
    before: Changes
    """What is at each path of `changes` in the base. Empty in the pack of a sandbox, which knows only what it has now."""
    value: Any
    """What the writer of a plan wanted to be kept with it, as JSON has it."""


def write_plan(target: Path, base: Tree, changes: Changes, contents: Contents, value: Any = None) -> None:
    """Write what is to be done to `base`: `changes`, whose contents are had from `contents`, and any JSON `value` beside them.

    The file appears whole or not at all. Raises `PatchRefused` for paths and modes that no sandbox can have.
    """
    before = {path: base.entries.get(path) for path in changes}
    head = index(base.id, changes, before=before, value=value)
    with packing(target, head) as add:
        for blob, size in wanted(changes).items():
            add(blob, size, BytesIO(contents.get(blob)).read)


def read_pack(path: Path, store: Path) -> PackedChanges:
    """Read a pack or a plan. Nothing is unpacked: contents are hashed, and stay where they are.

    `store` is a folder for the contents that may be made of these; it is made. Raises `ArchiveRefused` for a file that is cut
    off, or is none of ours.
    """
    members = BaseTree.from_tar(path, store, exclude=())
    try:
        said = _said(members)
        base, changes, before = said["base"], _nodes(said["changes"]), _nodes(said["before"])
        _check(base, changes, before)
        _check_contents(changes, members.store)
        return PackedChanges(base, changes, members.store, before, said["value"])
    except (ValueError, KeyError, TypeError, RecursionError, PatchRefused) as exc:
        raise ArchiveRefused(f"{path} is no pack of changes, or is cut off: {exc}") from exc


def index(base: str, changes: Changes, *, before: Changes | None = None, value: Any = None) -> bytes:
    """The JSON of a pack. Raises `PatchRefused` for paths, modes and ids that cannot be, and for more than `INDEX_CAP`."""
    before = before or {}
    _check(base, changes, before)
    rows, old = _rows(changes), _rows(before)
    said = {"version": _VERSION, "base": base, "changes": rows, "before": old, "value": value}
    head = json.dumps(said, separators=(",", ":")).encode()
    if len(head) > INDEX_CAP:
        raise PatchRefused(f"the list of what was changed has more than {INDEX_CAP // 1024**2} MiB: change fewer files at once")
    return head


def wanted(changes: Changes) -> dict[str, int]:
    """The contents that a pack of these changes holds, with their sizes (bytes), in the order of their paths.

    Raises `PatchRefused` when one content is said to have two sizes.
    """
    sizes: dict[str, int] = {}
    for path, node in sorted(changes.items()):
        if node is not None and node.mode != FOLDER and sizes.setdefault(node.blob, node.size) != node.size:
            raise PatchRefused(f"{shown(path)} is said to have {node.size} bytes, and another file of its content another size")
    return sizes


Add = Callable[[str, int, Callable[[int], bytes]], None]
"""Adds a content: its blob id, its size in bytes, and what reads the next n bytes of it."""


@contextmanager
def packing(target: Path, head: bytes) -> Iterator[Add]:
    """A new pack that begins with the JSON `head`. It appears when the block ends, and not at all when it fails."""
    descriptor, draft = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            out = TarWriter(file)
            out.file(_INDEX, len(head), BytesIO(head).read)
            yield lambda blob, size, read: _added(out, blob, size, read)
            out.close()
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _added(out: TarWriter, blob: str, size: int, read: Callable[[int], bytes]) -> None:
    out.file(f"contents/{blob}", size, read)


def _rows(nodes: Changes) -> list[list[Any]]:
    return [[path] if node is None else [path, node.mode, node.blob, node.size] for path, node in sorted(nodes.items())]


def _said(members: BaseTree) -> Mapping[str, Any]:
    head = members.entries[_INDEX]
    if head.size > INDEX_CAP:
        raise ValueError(f"its list has more than {INDEX_CAP // 1024**2} MiB")
    said = json.loads(members.store.get(head.blob))
    if not isinstance(said, dict) or said["version"] != _VERSION:
        raise ValueError("it was written by another version of Fanfold")
    return said


def _nodes(rows: Any) -> dict[str, Node | None]:
    nodes: dict[str, Node | None] = {}
    for row in rows:
        match row:
            case [str(path)]:
                node = None
            case [str(path), str(mode), str(blob), int(size)] if not isinstance(size, bool):
                node = Node(cast(Mode, mode), blob, size)
            case _:
                raise ValueError(f"{row!r:.100} says nothing about a path")
        if path in nodes:
            raise ValueError(f"{shown(path)} is in it twice")
        nodes[path] = node
    return nodes


def _check(base: str, changes: Changes, before: Changes) -> None:
    if not isinstance(base, str) or not _ID.fullmatch(base):
        raise PatchRefused(f"{base!r:.100} is not the id of a tree")
    if before and before.keys() != changes.keys():
        raise PatchRefused("what was there before is not told of the same paths")
    for nodes in (changes, before):
        there = ((path, node) for path, node in nodes.items() if node is not None)
        check_manifest(FileEntry(path, cast(Mode, node.mode), node.size, node.blob) for path, node in there)
        for path, node in nodes.items():
            _check_path(path, node)


def _check_path(path: str, node: Node | None) -> None:
    try:
        split(path)
    except BadName as exc:
        raise PatchRefused(f"the path {shown(path)} {exc}") from exc
    if node is not None and not _ID.fullmatch(node.blob):
        raise PatchRefused(f"{shown(path)} has the content {node.blob!r:.100}, which is not the id of one")


def _check_contents(changes: Changes, store: BlobStore) -> None:
    for blob, size in wanted(changes).items():
        if blob not in store.extents or store.extents[blob].size != size:
            raise ValueError(f"the content {blob} of {size} bytes is not in it")
