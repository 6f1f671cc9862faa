"""Files that lie in a mapping in this process: what agent state and shared dicts have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from sandboxes.backends.keyed.entries import KeyValue
from sandboxes.backends.keyed.filedata import FileFormat
from sandboxes.protocol import FileData

Update = dict[str, FileData | None]
"""Changes to files by their keys; None deletes."""
KEY = "files"
"""Where a state, or a shared dict, has its files."""


class MemoryFiles(KeyValue):
    """The files of a mapping as they are now. Changes are handed to `commit`, and are seen here."""

    def __init__(self, files: Mapping[str, FileData], commit: Callable[[Update], None], file_format: FileFormat) -> None:
        self._files = files
        self._commit = commit
        self.file_format = file_format

    def load(self, path: str) -> FileData | None:
        """See `KeyValue`."""
        return self._files.get(path)

    def save(self, files: Mapping[str, FileData]) -> None:
        """See `KeyValue`."""
        self._commit({**files})
        self._files = {**self._files, **files}

    def remove(self, paths: Sequence[str]) -> None:
        """See `KeyValue`."""
        gone = set(paths)
        self._commit(dict.fromkeys(paths))
        self._files = {path: kept for path, kept in self._files.items() if path not in gone}

    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """See `KeyValue`."""
        return ((path, kept) for path, kept in self._files.items() if isinstance(path, str) and path.startswith(prefix))


class SharedFiles(MemoryFiles):
    """The files under `files` of a dict that others hold too: changes are made in it, and results tell them as an update.

    With a `prefix` the paths are those below it; in the dict, and in updates, they are whole. `in_place` changes the dict of
    files itself, so that others who change it at the same time lose nothing; else a changed copy takes its place, because
    what a graph has in its state may only change through its channels.
    """

    def __init__(
        self, shared: MutableMapping[str, Any], file_format: FileFormat, *, prefix: str = "", in_place: bool = False
    ) -> None:
        self._shared = shared
        self._prefix = prefix
        self._in_place = in_place
        own = {path.removeprefix(prefix): kept for path, kept in self._all().items() if path.startswith(f"{prefix}/")}
        super().__init__(own, self._change, file_format)

    def _all(self) -> dict[str, FileData]:
        files = self._shared.get(KEY)
        return dict(files) if files else {}

    def _change(self, update: Update) -> None:
        files = self._shared.get(KEY)
        if files is None or not self._in_place:
            files = {**(files or {})}
        for path, kept in update.items():
            if kept is None:
                files.pop(self._prefix + path, None)
            else:
                files[self._prefix + path] = kept
        # Set again even when it is the same: a session's state notices nothing else.
        self._shared[KEY] = files

    def files_update(self, files: Mapping[str, FileData]) -> dict[str, FileData] | None:
        """See `KeyValue`."""
        return {self._prefix + path: kept for path, kept in files.items()}
