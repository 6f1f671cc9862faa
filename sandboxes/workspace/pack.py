"""What a sandbox has changed, fetched into one file."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Final

from sandboxes.errors import PatchRefused, SandboxTimeout
from sandboxes.workspace.manifest import FOLDER, LINK, FileEntry, check_manifest, link_target
from sandboxes.workspace.names import shown
from sandboxes.workspace.packed import Add, index, packing, wanted
from sandboxes.workspace.patch import DEADLINE, Fetch
from sandboxes.workspace.store import blob_hash
from sandboxes.workspace.tarwriter import CHUNK
from sandboxes.workspace.tree import Node

PARALLEL: Final = 8
"""Contents that are fetched at once. One after the other, a hundred small files would be a hundred round trips."""

Spool = SpooledTemporaryFile[bytes]


async def pack(
    changed: Sequence[FileEntry], removed: Sequence[str], fetch: Fetch, target: Path, *, base: str, cap: int
) -> None:
    """Write a pack of what a sandbox changed in the tree with the id `base`: `changed` and `removed` are its own words.

    Of each content, what comes is hashed, and must be what the sandbox said; contents pass through temporary files beside
    `target`, which appears whole or not at all. Raises `PatchRefused` for paths that cannot be, a content that is another one
    or gone, and more than `cap` bytes in all; `SandboxTimeout` when the contents do not come; what `fetch` raises for a failed
    sandbox.
    """
    entries = check_manifest(changed)
    if twice := sorted(entries.keys() & set(removed)):
        raise PatchRefused(f"the sandbox reports {shown(twice[0])} as changed and as removed")
    changes = {path: Node(entry.mode, entry.blob, entry.size) for path, entry in entries.items()} | dict.fromkeys(removed)
    head = index(base, changes)
    if len(head) + sum(wanted(changes).values()) > cap:
        raise PatchRefused(f"the changes are larger than {cap} bytes together: remove or exclude what is no result")
    contents: dict[str, FileEntry] = {}
    for _, entry in sorted(entries.items()):
        if entry.mode != FOLDER:
            contents.setdefault(entry.blob, entry)
    try:
        async with asyncio.timeout(DEADLINE):
            with packing(target, head) as add:
                await _write(add, contents.values(), fetch, target.parent)
    except TimeoutError as exc:
        raise SandboxTimeout(f"the sandbox did not give the contents of its changes within {DEADLINE:.0f} s") from exc


async def _write(add: Add, entries: Iterable[FileEntry], fetch: Fetch, folder: Path) -> None:
    """Add contents in order, while those that come next are fetched already."""
    waiting = iter(entries)
    window: deque[tuple[FileEntry, asyncio.Task[Spool]]] = deque()
    try:
        while True:
            while len(window) < PARALLEL and (entry := next(waiting, None)) is not None:
                window.append((entry, asyncio.create_task(_fetched(entry, fetch, folder))))
            if not window:
                return
            entry, task = window[0]
            with await task as content:
                await asyncio.to_thread(add, entry.blob, entry.size, content.read)
            window.popleft()
    finally:
        await _drop([task for _, task in window])


async def _drop(tasks: Sequence[asyncio.Task[Spool]]) -> None:
    for task in tasks:
        task.cancel()
    for content in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(content, BaseException):
            content.close()


async def _fetched(entry: FileEntry, fetch: Fetch, folder: Path) -> Spool:
    """A content that is what its entry says, to be read from its start."""
    spool = Spool(max_size=CHUNK, dir=str(folder))
    try:
        digest, size = blob_hash(entry.size), 0
        async for piece in _pieces(entry, fetch):
            size += len(piece)
            if size > entry.size:
                break
            digest.update(piece)
            spool.write(piece)
        if (size, digest.hexdigest()) != (entry.size, entry.blob):
            raise PatchRefused(f"{shown(entry.path)} is not what the sandbox said it was: something still writes to it")
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return spool


async def _pieces(entry: FileEntry, fetch: Fetch) -> AsyncIterator[bytes]:
    if entry.mode == LINK:
        yield link_target(entry)
        return
    try:
        async for piece in fetch(entry.path):
            yield piece
    except TimeoutError:
        raise
    except OSError as exc:
        raise PatchRefused(f"cannot read {shown(entry.path)} in the sandbox: {exc}") from exc
