"""The contents of what a sandbox's manifest tells of: small ones many in a call, large ones in pieces."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sandboxes.workspace.manifest import LINK, FileEntry, link_target

SMALL: Final = 64 * 1024
"""Bytes up to which a content is fetched together with others."""
BATCH: Final = 500
"""Contents that are fetched together."""
BATCH_BYTES: Final = 1024 * 1024
"""Bytes of contents that are fetched together: they are held in memory."""


class Source(Protocol):
    """What is needed of a sandbox: see `sandboxes.sandbox.Sandbox`."""

    def download_stream(self, path: str) -> AsyncIterator[bytes]:
        """The content of a file in pieces. Raises `OSError`; `FileNotFoundError` when it is gone."""
        ...

    async def download_small(self, files: Sequence[tuple[str, int]]) -> Sequence[bytes | OSError | None]:
        """The contents of files of at most so many bytes each, in order; None: it has more."""
        ...


@dataclass(frozen=True)
class Files:
    """The files that a manifest of `root` tells of, in the sandbox `source`."""

    source: Source
    root: str

    def stream(self, path: str) -> AsyncIterator[bytes]:
        """The content of one in pieces."""
        return self.source.download_stream(posixpath.join(self.root, path))

    async def small(self, batch: Sequence[FileEntry]) -> list[bytes | OSError | None]:
        """The contents of a batch without large ones, in order: none is longer than its entry says, None stands for it then.

        The content of a link is its target. Raises `PatchRefused` for a link without one.
        """
        wanted = [(posixpath.join(self.root, entry.path), entry.size) for entry in batch if entry.mode != LINK]
        came = iter(await self.source.download_small(wanted) if wanted else ())
        return [link_target(entry) if entry.mode == LINK else next(came) for entry in batch]


def is_small(entry: FileEntry) -> bool:
    """Whether a content is fetched together with others. That of a link came with the manifest."""
    return entry.mode == LINK or entry.size <= SMALL


def batched(entries: Iterable[FileEntry]) -> Iterator[list[FileEntry]]:
    """The entries in their order, in batches of what is fetched together; a large one is alone in its batch."""
    batch: list[FileEntry] = []
    room = BATCH_BYTES
    for entry in entries:
        if batch and (entry.size > room or len(batch) == BATCH or not is_small(entry)):
            yield batch
            batch, room = [], BATCH_BYTES
        batch.append(entry)
        room = room - entry.size if is_small(entry) else -1
    if batch:
        yield batch
