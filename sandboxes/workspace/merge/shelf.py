"""The contents that a merge reads and makes."""

from __future__ import annotations

from collections.abc import Iterable

from sandboxes.workspace.merge.values import Child, Contents
from sandboxes.workspace.store import BlobStore, blob_id


class Shelf:
    """All contents of a merge by blob id: old ones where they lie, new ones in memory until `keep`."""

    def __init__(self, base: BlobStore) -> None:
        self._base = base
        self._where: dict[str, Contents] = {}
        self._new: dict[str, bytes] = {}

    def admit(self, child: Child) -> None:
        """Know where the contents of a child's changes are."""
        if child.contents is self._base:
            return
        for node in child.changes.values():
            if node is not None:
                self._where.setdefault(node.blob, child.contents)

    def get(self, blob: str) -> bytes:
        """The content of a blob. Raises `KeyError` for one that is in none of the stores."""
        if (content := self._new.get(blob)) is not None:
            return content
        if (store := self._where.get(blob)) is None:
            return self._base.get(blob)
        try:
            return store.get(blob)
        except KeyError:
            return self._base.get(blob)

    def put(self, content: bytes) -> str:
        """Remember a new content; returns its blob id."""
        blob = blob_id([content], len(content))
        self._new[blob] = content
        return blob

    def keep(self, blobs: Iterable[str]) -> None:
        """Write those new contents to the base's store that are among `blobs`, and forget the others."""
        for blob in self._new.keys() & set(blobs):
            self._base.put(self._new[blob])
        self._new.clear()
