"""One namespace of a langgraph store as a place for files, sync and async. What is long is read a page at a time.

A store's search takes a prefix of a namespace (and in some stores any text that begins like it), so what it finds is looked
at again: nothing of another namespace comes through.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from langgraph.store.base import BaseStore, GetOp, Item, PutOp

from sandboxes.backends.keyed import filedata
from sandboxes.backends.keyed.entries import KeyValue, PathLocks
from sandboxes.backends.keyed.filedata import PATH_CAP, FileFormat
from sandboxes.protocol import FileData, FileInfo

PAGE: Final = 1000
"""Files that a store is asked for at once."""


class Namespaced:
    """What is asked of a store, and what of its answers counts."""

    def __init__(self, store: BaseStore, namespace: tuple[str, ...]) -> None:
        self.store = store
        self.namespace = namespace

    def gets(self, paths: Sequence[str]) -> Iterator[list[GetOp]]:
        """Reads of these files, in pages."""
        return ([GetOp(self.namespace, path) for path in page] for page in _pages(paths))

    def puts(self, files: Mapping[str, FileData]) -> Iterator[list[PutOp]]:
        """Writes of these files, in pages."""
        # An operation of a batch does not get the store's own lifetime for items by itself.
        ttl = (self.store.ttl_config or {}).get("default_ttl")
        for page in _pages(list(files)):
            yield [PutOp(self.namespace, path, cast("Mapping[str, Any]", files[path]), ttl=ttl) for path in page]

    def deletions(self, paths: Sequence[str]) -> Iterator[list[PutOp]]:
        """Removals of these files, in pages."""
        return ([PutOp(self.namespace, path, None) for path in page] for page in _pages(paths))

    def found(self, items: Sequence[Any]) -> Iterator[tuple[str, FileData]]:
        """The files among answers of the store."""
        for item in items:
            if isinstance(item, Item) and tuple(item.namespace) == self.namespace:
                yield str(item.key), cast("FileData", item.value)


def _pages(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + PAGE] for start in range(0, len(paths), PAGE))


class Shelf(KeyValue):
    """The files of a namespace, by the store's sync methods."""

    def __init__(self, place: Namespaced, file_format: FileFormat) -> None:
        self._place = place
        self.namespace = place.namespace
        self.file_format = file_format

    def load(self, path: str) -> FileData | None:
        """See `KeyValue`."""
        return self.load_all([path]).get(path)

    def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """See `KeyValue`."""
        answers = (self._place.store.batch(page) for page in self._place.gets(paths))
        return {path: kept for page in answers for path, kept in self._place.found(page)}

    def save(self, files: Mapping[str, FileData]) -> None:
        """See `KeyValue`."""
        for page in self._place.puts(files):
            self._place.store.batch(page)

    def remove(self, paths: Sequence[str]) -> None:
        """See `KeyValue`."""
        for page in self._place.deletions(paths):
            self._place.store.batch(page)

    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """See `KeyValue`."""
        offset, page = 0, list[Any]()
        while not offset or len(page) == PAGE:
            page = list(self._place.store.search(self._place.namespace, limit=PAGE, offset=offset))
            offset += PAGE
            yield from ((path, kept) for path, kept in self._place.found(page) if path.startswith(prefix))


class AsyncShelf:
    """`Entries` of a namespace, by the store's async methods alone: some stores have no others on an event loop."""

    def __init__(self, place: Namespaced, file_format: FileFormat, locks: PathLocks[asyncio.Lock]) -> None:
        self._place = place
        self._locks = locks
        self.file_format = file_format
        self.path_cap = PATH_CAP

    async def load(self, path: str) -> FileData | None:
        """See `KeyValue`."""
        return (await self.load_all([path])).get(path)

    async def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """See `KeyValue`."""
        found: dict[str, FileData] = {}
        for page in self._place.gets(paths):
            found.update(self._place.found(await self._place.store.abatch(page)))
        return found

    async def save(self, files: Mapping[str, FileData]) -> None:
        """See `KeyValue`."""
        for page in self._place.puts(files):
            await self._place.store.abatch(page)

    async def remove(self, paths: Sequence[str]) -> None:
        """See `KeyValue`."""
        for page in self._place.deletions(paths):
            await self._place.store.abatch(page)

    async def scan(self, prefix: str) -> AsyncGenerator[tuple[str, FileData], None]:
        """See `KeyValue`."""
        offset, page = 0, list[Any]()
        while not offset or len(page) == PAGE:
            page = list(await self._place.store.asearch(self._place.namespace, limit=PAGE, offset=offset))
            offset += PAGE
            for path, kept in self._place.found(page):
                if path.startswith(prefix):
                    yield path, kept

    async def listing(self, prefix: str) -> AsyncGenerator[FileInfo, None]:
        """See `KeyValue`."""
        async for path, kept in self.scan(prefix):
            yield filedata.info(path, kept)

    def files_update(self, files: Mapping[str, FileData]) -> dict[str, FileData] | None:
        """See `KeyValue`."""
        return None

    @asynccontextmanager
    async def changing(self, path: str) -> AsyncIterator[None]:
        """See `Entries`."""
        async with self._locks.of((asyncio.get_running_loop(), self._place.namespace, path)):
            yield
