"""Backends whose files have to be found anew for each call: in the state, or the store, of the run that makes it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from sandboxes.backends.keyed.entries import KeyValue
from sandboxes.backends.keyvalue import KeyValueBackend
from sandboxes.protocol import FileData


class FoundFiles(KeyValueBackend):
    """A key-value backend over whatever `_files` finds."""

    @abstractmethod
    def _files(self) -> KeyValue:
        """Where the files of this call are."""

    def load(self, path: str) -> FileData | None:
        """See `KeyValue`."""
        return self._files().load(path)

    def save(self, files: Mapping[str, FileData]) -> None:
        """See `KeyValue`."""
        self._files().save(files)

    def remove(self, paths: Sequence[str]) -> None:
        """See `KeyValue`."""
        self._files().remove(paths)

    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """See `KeyValue`."""
        return self._files().scan(prefix)
