"""What a sandbox has changed, fetched into one file."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Final

from sandboxes.errors import PatchRefused, SandboxTimeout
from sandboxes.workspace.fetching import Files, batched, is_small
from sandboxes.workspace.manifest import FOLDER, FileEntry, check_manifest
from sandboxes.workspace.names import shown
from sandboxes.workspace.packed import Add, index, packing, wanted
from sandboxes.workspace.patch import DEADLINE
from sandboxes.workspace.store import blob_hash, blob_id
from sandboxes.workspace.tarwriter import CHUNK
from sandboxes.workspace.tree import Node

PARALLEL: Final = 8
"""Batches of small contents, and large contents, that are fetched at once."""

Spool = SpooledTemporaryFile[bytes]
Fetched = list[tuple[FileEntry, Spool | BytesIO]]
"""Contents to be read from their starts."""


async def pack(
    changed: Sequence[FileEntry], removed: Sequence[str], files: Files, target: Path, *, base: str, cap: int
) -> None:
    """Write a pack of what a sandbox changed in the tree with the id `base`: `changed` and `removed` are its own words.

    Of each content, what comes is hashed, and must be what the sandbox said; large ones pass through temporary files beside
    `target`, which appears whole or not at all. Raises `PatchRefused` for paths that cannot be, a content that is another one
    or gone, and more than `cap` bytes in all; `SandboxTimeout` when the contents do not come; what `files` raises for a failed
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
                await _write(add, contents.values(), files, target.parent)
    except TimeoutError as exc:
        raise SandboxTimeout(f"the sandbox did not give the contents of its changes within {DEADLINE:.0f} s") from exc


async def _write(add: Add, entries: Iterable[FileEntry], files: Files, folder: Path) -> None:
    """Add contents in order, while those that come next are fetched already."""
    waiting = batched(entries)
    window: deque[asyncio.Task[Fetched]] = deque()
    try:
        while True:
            while len(window) < PARALLEL and (batch := next(waiting, None)) is not None:
                window.append(asyncio.create_task(_fetched(batch, files, folder)))
            if not window:
                return
            contents = await window[0]
            await asyncio.to_thread(_added, add, contents)
            window.popleft()
            _close(contents)
    finally:
        await _drop(window)


def _added(add: Add, contents: Fetched) -> None:
    for entry, content in contents:
        if isinstance(content, BytesIO) and blob_id([content.getvalue()], entry.size) != entry.blob:
            raise _another(entry)
        add(entry.blob, entry.size, content.read)


def _close(contents: Fetched) -> None:
    for _, content in contents:
        content.close()


async def _drop(tasks: Iterable[asyncio.Task[Fetched]]) -> None:
    for task in tasks:
        task.cancel()
    for contents in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(contents, BaseException):
            _close(contents)


async def _fetched(batch: list[FileEntry], files: Files, folder: Path) -> Fetched:
    if not is_small(batch[0]):
        return [(batch[0], await _spooled(batch[0], files, folder))]
    contents: Fetched = []
    for entry, content in zip(batch, await files.small(batch), strict=True):
        if isinstance(content, OSError):
            raise _unreadable(entry, content) from content
        if content is None or len(content) != entry.size:
            raise _another(entry)
        contents.append((entry, BytesIO(content)))
    return contents


async def _spooled(entry: FileEntry, files: Files, folder: Path) -> Spool:
    """A large content that is what its entry says."""
    spool = Spool(max_size=CHUNK, dir=str(folder))
    try:
        digest, size = blob_hash(entry.size), 0
        async for piece in _pieces(entry, files):
            size += len(piece)
            if size > entry.size:
                break
            digest.update(piece)
            spool.write(piece)
        if (size, digest.hexdigest()) != (entry.size, entry.blob):
            raise _another(entry)
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return spool


async def _pieces(entry: FileEntry, files: Files) -> AsyncIterator[bytes]:
    try:
        async for piece in files.stream(entry.path):
            yield piece
    except TimeoutError:
        raise
    except OSError as exc:
        raise _unreadable(entry, exc) from exc


def _another(entry: FileEntry) -> PatchRefused:
    return PatchRefused(f"{shown(entry.path)} is not what the sandbox said it was: something still writes to it")


def _unreadable(entry: FileEntry, exc: OSError) -> PatchRefused:
    return PatchRefused(f"cannot read {shown(entry.path)} in the sandbox: {exc}")
