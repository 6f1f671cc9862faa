"""Files in the state of a langgraph agent: they live as long as the thread, through its checkpointer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, NotRequired, TypeVar

from langgraph._internal._constants import CONF, CONFIG_KEY_READ, CONFIG_KEY_SEND
from langgraph.config import get_config
from typing_extensions import TypedDict

from sandboxes.backends.keyed.entries import Direct, Entries
from sandboxes.backends.keyed.filedata import FileFormat
from sandboxes.backends.keyed.found import FoundFiles
from sandboxes.backends.keyed.memory import KEY, MemoryFiles, SharedFiles, Update
from sandboxes.deprecated import warn_deprecated
from sandboxes.protocol import FileData

R = TypeVar("R")


def merge_files(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> dict[str, Any]:
    """The reducer of the state's `files`: `right` goes over `left`; None deletes. Parallel writes of other files all stay."""
    merged = {**(left or {})}
    for path, kept in (right or {}).items():
        if kept is None:
            merged.pop(path, None)
        else:
            merged[path] = kept
    return merged


class FilesState(TypedDict):
    """What an agent's state needs for a `StateBackend`."""

    files: Annotated[NotRequired[dict[str, Any]], merge_files]
    """Path to `FileData`, of either format."""


class StateBackend(FoundFiles):
    """Files under `files` of the state of the graph that is running; see `FilesState`.

    One instance serves any number of graphs and threads: it finds the state of the run that calls it. What is written outside
    of a run is held, and can be read outside, until a run takes it: by `take_pending`, or with its first call in here.

    Deprecated: `StateBackend(runtime)`, which is the same inside of a run and works on `runtime.state` outside of one; and
    `StateBackend(state)`, which works on that dict alone. Working on a dict, results have a `files_update`.
    """

    def __init__(self, runtime: Any = None, *, file_format: FileFormat | None = None) -> None:
        alone = isinstance(runtime, Mapping) or (hasattr(runtime, "__setitem__") and hasattr(runtime, "get"))
        super().__init__(file_format=file_format or ("v1" if alone else "v2"))
        if runtime is not None:
            what = "a state" if alone else "a runtime"
            message = f"StateBackend no longer takes {what}: StateBackend() finds the state of the graph that is running"
            warn_deprecated(message)
        self._state = runtime if alone else None
        self._runtime = None if alone else runtime
        self._pending: Update = {}
        # Held for each whole operation: tool calls of one task run in threads and share its list of writes.
        self._lock = threading.RLock()

    def take_pending(self) -> Update:
        """What was written (or, as None, deleted) outside of a run since the last call. The caller puts it into the state."""
        with self._lock:
            taken, self._pending = self._pending, {}
            return taken

    def _files(self) -> MemoryFiles:
        channel = _Channel.of_run() if self._state is None else None
        if channel is not None:
            if pending := self.take_pending():
                channel.send(pending)
            return MemoryFiles(channel.read(), channel.send, self.file_format)
        state = self._state if self._runtime is None else self._runtime.state
        if state is not None:
            return SharedFiles(state, self.file_format)
        return MemoryFiles(merge_files(None, self._pending), self._pending.update, self.file_format)

    def _entries(self) -> Entries:
        return Direct(self._files(), self._locks)

    def _perform(self, operation: Callable[..., Coroutine[Any, Any, R]], *args: Any, **kwargs: Any) -> R:
        with self._lock:
            return super()._perform(operation, *args, **kwargs)

    async def _twin(
        self, method: Callable[..., R], operation: Callable[..., Coroutine[Any, Any, R]], *args: Any, **kwargs: Any
    ) -> R:
        return method(*args, **kwargs)


class _Channel:
    """The `files` of the graph that runs here."""

    def __init__(self, configurable: Mapping[str, Any]) -> None:
        self._read = configurable[CONFIG_KEY_READ]
        self._send = configurable[CONFIG_KEY_SEND]

    @classmethod
    def of_run(cls) -> _Channel | None:
        """That of the task in which this is called; None outside of a run."""
        try:
            configurable = get_config().get(CONF, {})
        except RuntimeError:
            return None
        return cls(configurable) if CONFIG_KEY_READ in configurable and CONFIG_KEY_SEND in configurable else None

    def read(self) -> Mapping[str, FileData]:
        """The files, with what this task wrote until now."""
        try:
            files = self._read(KEY, True)
        except KeyError:
            raise RuntimeError(
                f"StateBackend: the state of this graph has no `{KEY}`: let its schema have that of FilesState"
            ) from None
        if files is not None and not isinstance(files, Mapping):
            raise TypeError(f"StateBackend: `{KEY}` of this graph's state is a {type(files).__name__}, not a dict of files")
        return files or {}

    def send(self, update: Update) -> None:
        """Write to the state, at the end of this task; `read` shows it at once."""
        self._send([(KEY, update)])
