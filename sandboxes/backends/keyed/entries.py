"""Files as entries under keys: the few things that a place for them has to do, sync or async.

`KeyValue` is what a backend implements. `Entries` is the async face of it that the operations (`operations.py`) are written
over, once: `Direct` is that face of a sync `KeyValue`, and never waits, so that `portal.finished` can run an operation over it
without an event loop.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from sandboxes.backends.keyed import filedata
from sandboxes.backends.keyed.filedata import FileFormat
from sandboxes.protocol import FileData, FileInfo

T = TypeVar("T")
Lock = TypeVar("Lock")


class KeyValue(ABC):
    """Files under keys. Paths that come in are absolute and normalized; what is kept may be of either format.

    Whatever these raise is a failure of the place itself, and reaches the caller as it is.
    """

    file_format: FileFormat = "v2"
    """The format of what is handed to `save`."""
    path_cap: int = filedata.PATH_CAP
    """Bytes of a path that the place takes at most."""

    @abstractmethod
    def load(self, path: str) -> FileData | None:
        """What is kept under one path; None when nothing is."""

    @abstractmethod
    def save(self, files: Mapping[str, FileData]) -> None:
        """Write files, new ones and over old ones."""

    @abstractmethod
    def remove(self, paths: Sequence[str]) -> None:
        """Remove files. One that is not there is no error."""

    @abstractmethod
    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """Every file whose path begins with `prefix`, which ends in `/`; in any order, and a page at a time."""

    def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """What is kept under each of these paths, without those that hold nothing. Override it to ask only once."""
        found = {path: self.load(path) for path in paths}
        return {path: kept for path, kept in found.items() if kept is not None}

    def listing(self, prefix: str) -> Iterator[FileInfo]:
        """The entries of `scan`, without their content. Override it where they can be had without reading the files."""
        return (filedata.info(path, kept) for path, kept in self.scan(prefix))

    def files_update(self, files: Mapping[str, FileData]) -> dict[str, FileData] | None:
        """What the caller has to merge into a state by itself after `files` were saved. None: nothing, it is done."""
        return None


class Entries(Protocol):
    """The async face of a `KeyValue`. See its methods there."""

    @property
    def file_format(self) -> FileFormat:
        """See `KeyValue`."""
        ...

    @property
    def path_cap(self) -> int:
        """See `KeyValue`."""
        ...

    async def load(self, path: str) -> FileData | None:
        """See `KeyValue`."""

    async def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """See `KeyValue`."""
        ...

    async def save(self, files: Mapping[str, FileData]) -> None:
        """See `KeyValue`."""

    async def remove(self, paths: Sequence[str]) -> None:
        """See `KeyValue`."""

    def scan(self, prefix: str) -> AsyncGenerator[tuple[str, FileData], None]:
        """See `KeyValue`."""
        ...

    def listing(self, prefix: str) -> AsyncGenerator[FileInfo, None]:
        """See `KeyValue`."""
        ...

    def files_update(self, files: Mapping[str, FileData]) -> dict[str, FileData] | None:
        """See `KeyValue`."""
        ...

    def changing(self, path: str) -> AbstractAsyncContextManager[None]:
        """Held while `path` is looked at and then written, so that no change in between is lost."""
        ...


class PathLocks(Generic[Lock]):
    """A lock for each key that is in use; one that nobody holds any more is forgotten."""

    def __init__(self, make: Callable[[], Lock]) -> None:
        self._make = make
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[object, Lock] = WeakValueDictionary()

    def of(self, key: object) -> Lock:
        """The lock of `key`: the same one for everybody who asks while somebody holds it."""
        with self._guard:
            lock = self._locks.get(key)
            if lock is None:
                lock = self._locks[key] = self._make()
            return lock


class Direct:
    """`Entries` over a sync `KeyValue`: each coroutine ends without waiting. Different scopes do not share their locks."""

    def __init__(self, kept: KeyValue, locks: PathLocks[threading.Lock], scope: object = None) -> None:
        self._kept = kept
        self._locks = locks
        self._scope = scope

    @property
    def file_format(self) -> FileFormat:
        """See `KeyValue`."""
        return self._kept.file_format

    @property
    def path_cap(self) -> int:
        """See `KeyValue`."""
        return self._kept.path_cap

    async def load(self, path: str) -> FileData | None:
        """See `KeyValue`."""
        return self._kept.load(path)

    async def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """See `KeyValue`."""
        return self._kept.load_all(paths)

    async def save(self, files: Mapping[str, FileData]) -> None:
        """See `KeyValue`."""
        self._kept.save(files)

    async def remove(self, paths: Sequence[str]) -> None:
        """See `KeyValue`."""
        self._kept.remove(paths)

    async def scan(self, prefix: str) -> AsyncGenerator[tuple[str, FileData], None]:
        """See `KeyValue`."""
        for item in self._kept.scan(prefix):
            yield item

    async def listing(self, prefix: str) -> AsyncGenerator[FileInfo, None]:
        """See `KeyValue`."""
        for item in self._kept.listing(prefix):
            yield item

    def files_update(self, files: Mapping[str, FileData]) -> dict[str, FileData] | None:
        """See `KeyValue`."""
        return self._kept.files_update(files)

    @asynccontextmanager
    async def changing(self, path: str) -> AsyncIterator[None]:
        """See `Entries`."""
        with self._locks.of((self._scope, path)):
            yield
