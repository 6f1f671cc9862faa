"""Files in a langgraph store: they outlive a thread, and are shared by whoever has the same namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from langgraph.config import get_store
from langgraph.store.base import BaseStore

from sandboxes.backends.keyed import namespaces
from sandboxes.backends.keyed.entries import Direct, Entries, KeyValue, PathLocks
from sandboxes.backends.keyed.filedata import FileFormat
from sandboxes.backends.keyed.found import FoundFiles
from sandboxes.backends.keyed.memory import SharedFiles
from sandboxes.backends.keyed.namespaces import Namespace
from sandboxes.backends.keyed.shelf import AsyncShelf, Namespaced, Shelf
from sandboxes.backends.keyvalue import KeyValueBackend
from sandboxes.deprecated import warn_deprecated

R = TypeVar("R")

_NO_NAMESPACE = (
    "StoreBackend without a namespace: all users of an assistant share their files. Pass namespace=, such as "
    "namespace=lambda rt: (rt.server_info.user.identity,)"
)


class StoreBackend(FoundFiles):
    """Files in `store`, or in that of the graph that is running, under the namespace that `namespace` gives for the run.

    Give a namespace: a tuple, or a factory of one over the langgraph `Runtime`. Without one (deprecated) it is
    `(assistant_id, "filesystem")`, or `("filesystem",)` where no assistant is known. A run that has no namespace, or no
    store, is a `ValueError` of each call. The async forms use the store's async methods alone.

    `StoreBackend(shared, namespace="project")` keeps its files in the dict `shared["files"]`, under `/project`, and its
    results have a `files_update`. Deprecated: `StoreBackend(runtime)`, which uses the store of that runtime.
    """

    def __init__(
        self,
        runtime_or_store: Any = None,
        *,
        store: BaseStore | None = None,
        namespace: Namespace | None = None,
        file_format: FileFormat | None = None,
    ) -> None:
        shared = isinstance(runtime_or_store, MutableMapping)
        super().__init__(file_format=file_format or ("v1" if shared else "v2"))
        self._shared: MutableMapping[str, Any] | None = runtime_or_store if shared else None
        self._store = runtime_or_store if isinstance(runtime_or_store, BaseStore) else store
        self._runtime = None if shared or isinstance(runtime_or_store, BaseStore) else runtime_or_store
        self._namespace = namespace
        self._turns: PathLocks[asyncio.Lock] = PathLocks(asyncio.Lock)
        if namespace is not None and not callable(namespace):
            namespaces.checked(namespace)
        if self._runtime is not None:
            warn_deprecated("StoreBackend no longer takes a runtime: it finds the store of the graph that is running")
        elif namespace is None and not shared:
            warn_deprecated(_NO_NAMESPACE)

    def _files(self) -> KeyValue:
        if self._shared is None:
            return Shelf(self._place(), self.file_format)
        inside = namespaces.resolve(self._namespace) if self._namespace is not None else ()
        prefix = "".join(f"/{part}" for part in inside)
        return SharedFiles(self._shared, self.file_format, prefix=prefix, in_place=True)

    def _place(self) -> Namespaced:
        namespace = namespaces.resolve(self._namespace, self._runtime)
        return Namespaced(self._store_of_run(), namespaces.key_of(namespace))

    def _store_of_run(self) -> BaseStore:
        store = self._store if self._store is not None else getattr(self._runtime, "store", None)
        if store is None:
            try:
                store = get_store()
            except (RuntimeError, KeyError):
                store = None
        if store is None:
            raise ValueError("StoreBackend has no store: give one to the graph (store=), or to StoreBackend(store=)")
        return store

    def _entries(self) -> Entries:
        files = self._files()
        return Direct(files, self._locks, scope=files.namespace if isinstance(files, Shelf) else ())

    async def _twin(
        self, method: Callable[..., R], operation: Callable[..., Coroutine[Any, Any, R]], *args: Any, **kwargs: Any
    ) -> R:
        if self._shared is not None:
            return method(*args, **kwargs)
        if self._changed(method.__name__) and not self._changed("a" + method.__name__):
            # A subclass guards the sync form alone: what it forbids there must not be open here.
            return await asyncio.to_thread(method, *args, **kwargs)
        return await operation(AsyncShelf(self._place(), self.file_format, self._turns), *args, **kwargs)

    def _changed(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(KeyValueBackend, name)
