"""Contents by their Git blob id: those of the base lie in its tar, which is only read; new ones go into a Git object store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pygit2
from pygit2.enums import ObjectType

from sandboxes.errors import ArchiveRefused


@dataclass(frozen=True, slots=True)
class Extent:
    """Where in the tar a content lies: `offset` and `size` in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class BlobStore:
    """A folder with a bare Git repository, and a tar whose contents need not be copied into it to be had."""

    folder: Path
    tar: Path | None = None
    extents: Mapping[str, Extent] = field(default_factory=dict)
    """Of the tar's contents, by blob id."""

    def __post_init__(self) -> None:
        pygit2.init_repository(str(self.folder), bare=True)

    def put(self, content: bytes) -> str:
        """Keep a content; returns its blob id, which is computed here."""
        return str(self._repository().create_blob(content))

    def get(self, blob: str) -> bytes:
        """The content of a blob that is in the tar or was `put`. Raises `KeyError` for another.

        Raises `ArchiveRefused` when the tar is not what it was.
        """
        extent = self.extents.get(blob)
        if extent is None:
            kind, content = self._repository().odb.read(blob)
            if kind != ObjectType.BLOB:
                raise KeyError(blob)
            return bytes(content)
        content = self._read(extent)
        if blob_id([content], extent.size) != blob:
            raise ArchiveRefused(f"{self.tar} was changed while it was in use: submit the run again")
        return content

    def _read(self, extent: Extent) -> bytes:
        assert self.tar is not None
        with self.tar.open("rb") as file:
            file.seek(extent.offset)
            return file.read(extent.size)

    def _repository(self) -> pygit2.Repository:
        return pygit2.Repository(str(self.folder))


def blob_id(pieces: Iterable[bytes], size: int) -> str:
    """Git's id of a blob of `size` bytes that comes in pieces."""
    digest = blob_hash(size)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def blob_hash(size: int) -> hashlib._Hash:
    """What a blob of `size` bytes is hashed with, for one whose pieces come from where no loop over them can be."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
