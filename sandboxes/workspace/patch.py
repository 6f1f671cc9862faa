"""From what a run started with to what its sandbox holds now.

`capture` learns the new state, `diff` tells two states apart, `make_patch` does one after the other. A sandbox may lie in its
manifest and in its contents. It gains nothing: every content is hashed here, and a blob id is taken at its word only when it
is one of the base, which the sandbox was given anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from sandboxes.errors import PatchRefused, SandboxTimeout
from sandboxes.workspace.fetching import Files, batched, is_small
from sandboxes.workspace.gitpatch import Side, render
from sandboxes.workspace.ignore import litter
from sandboxes.workspace.manifest import FOLDER, LINK, FileEntry, check_manifest
from sandboxes.workspace.names import is_dot_git, shown, to_bytes
from sandboxes.workspace.tree import BaseTree, Node, Tree

if TYPE_CHECKING:
    from sandboxes.workspace.merge.values import Contents
    from sandboxes.workspace.store import BlobStore

FILE_CAP: Final = 64 * 1024**2
"""Bytes of a file that is new or changed."""
FETCH_CAP: Final = 512 * 1024**2
"""Bytes of all files together that are new or changed."""
PATCH_CAP: Final = 512 * 1024**2
"""Bytes of a patch."""
DEADLINE: Final = 600.0
"""Seconds that fetching all contents may take."""

_ADVICE: Final = "name large results in `outputs.files` and keep them out of the patch with `inputs.exclude` or a .gitignore"


async def make_patch(base: BaseTree, entries: Iterable[FileEntry], files: Files) -> bytes:
    """The patch from `base` to what the manifest `entries` says; empty when nothing changed.

    `git apply` takes it in the folder that the base was made of (but for one case where it takes no patch of Git's either: a
    link that points in a circle has become a folder). Names in `base.exclude` are in neither; new files that are
    litter (`ignore`) are left out. Only what is not in the base is fetched.
    Raises `PatchRefused`; `SandboxTimeout` when the contents do not come; what `files` raises for a failed sandbox.
    """
    new = await capture(base, entries, files)
    return await asyncio.to_thread(diff, base.store, base, new)


async def capture(base: BaseTree, entries: Iterable[FileEntry], files: Files) -> Tree:
    """The files that the manifest `entries` describes, with all their contents in `base.store`. Raises as `make_patch`."""
    claimed = await asyncio.to_thread(_work, base, entries)
    known = {node.blob: node for node in base.files.values()}
    missing = [entry for entry in claimed.values() if entry.blob not in known]
    _check_sizes(missing)
    try:
        async with asyncio.timeout(DEADLINE):
            new = await _fetched(missing, files, base.store)
    except TimeoutError as exc:
        raise SandboxTimeout(f"the sandbox did not give the contents of its workspace within {DEADLINE:.0f} s") from exc
    old = {path: Node(one.mode, one.blob, known[one.blob].size) for path, one in claimed.items() if one.blob in known}
    return Tree({path: (old.get(path) or new[path]) for path in claimed if path in old or path in new})


async def _fetched(missing: Iterable[FileEntry], files: Files, store: BlobStore) -> dict[str, Node]:
    """What has come of these entries, with its content in `store`; not what is gone meanwhile."""
    left = FETCH_CAP
    nodes: dict[str, Node] = {}
    for batch in batched(missing):
        small = await files.small(batch) if is_small(batch[0]) else [None]
        for entry, came in zip(batch, small, strict=True):
            content = await _streamed(entry, files, min(left, FILE_CAP)) if came is None else came
            if isinstance(content, FileNotFoundError):
                continue
            if isinstance(content, OSError):
                raise PatchRefused(f"cannot read {shown(entry.path)} in the sandbox: {content}") from content
            if len(content) > left:
                raise _too_large(entry.path)
            left -= len(content)
            nodes[entry.path] = Node(entry.mode, await asyncio.to_thread(store.put, content), len(content))
    return nodes


def diff(store: Contents, old: Tree, new: Tree) -> bytes:
    """The patch from one tree to another; both have their contents in `store`. Empty folders are in no patch.

    Raises `PatchRefused`.
    """
    pieces: list[bytes] = []
    size = 0
    for path in _changed(old, new):
        before, after = old.files.get(path), new.files.get(path)
        whole = not _same_content(before, after)
        if whole and after is not None and after.size > FILE_CAP:
            raise _too_large(path)
        piece = render(path, _side(store, before, whole), _side(store, after, whole))
        size += len(piece)
        if size > PATCH_CAP:
            raise PatchRefused(f"the patch is larger than {PATCH_CAP // 1024**2} MiB, at {shown(path)}: {_ADVICE}")
        pieces.append(piece)
    return b"".join(pieces)


def _work(base: BaseTree, entries: Iterable[FileEntry]) -> dict[str, FileEntry]:
    """The checked manifest without litter and empty folders."""
    claimed = {path: entry for path, entry in check_manifest(entries, base.exclude).items() if entry.mode != FOLDER}
    if claimed.keys() <= base.files.keys():
        return claimed
    with litter(base) as is_litter:
        return {path: entry for path, entry in claimed.items() if path in base.files or not is_litter(path)}


def _check_sizes(missing: Iterable[FileEntry]) -> None:
    """Refuse early what is too large by the sandbox's own word; the same caps hold for what comes."""
    total = 0
    for entry in missing:
        total += entry.size
        if entry.size > FILE_CAP:
            raise _too_large(entry.path)
        if total > FETCH_CAP:
            raise PatchRefused(f"the new and changed files are larger than {FETCH_CAP // 1024**2} MiB together: {_ADVICE}")


async def _streamed(entry: FileEntry, files: Files, cap: int) -> bytes | OSError:
    """The content of a large file, or of one that has become longer than it was said to be."""
    content = bytearray()
    try:
        async for piece in files.stream(entry.path):
            content += piece
            if len(content) > cap:
                raise _too_large(entry.path)
    except TimeoutError:
        raise
    except OSError as exc:
        return exc
    return bytes(content)


def _changed(old: Tree, new: Tree) -> Iterator[str]:
    """Paths whose mode or content differ, in the order of Git. Raises `PatchRefused` for one that Git would not touch."""
    paths = {path for path, node in new.files.items() if _differs(old.files.get(path), node)}
    paths.update(old.files.keys() - new.files.keys())
    for path in sorted(paths, key=to_bytes):
        if any(is_dot_git(part) for part in path.split("/")):
            raise PatchRefused(f"{shown(path)} was changed, and Git keeps such names for itself: rename it, or exclude it")
        yield path


def _differs(old: Node | None, new: Node) -> bool:
    return old is None or (old.mode, old.blob) != (new.mode, new.blob)


def _same_content(old: Node | None, new: Node | None) -> bool:
    """Whether only the executable bit differs. A link and a file are never the same, even with the same bytes."""
    return old is not None and new is not None and old.blob == new.blob and (old.mode == LINK) == (new.mode == LINK)


def _side(store: Contents, node: Node | None, whole: bool) -> Side | None:
    """One side of a change, with its content if that is to be shown and not too large."""
    if node is None:
        return None
    return Side(node.mode, node.blob, store.get(node.blob) if whole and node.size <= FILE_CAP else None)


def _too_large(path: str) -> PatchRefused:
    return PatchRefused(f"{shown(path)} has more than {FILE_CAP // 1024**2} MiB: {_ADVICE}")
