"""The protocol's first version: what users wrote for it goes on working, adapted to the second.

A first-version backend lists with `ls_info`, searches with `grep_raw` and `glob_info`, reads text with numbered lines, and
may hand what it wrote to the agent's state in `files_update`. `adapt_backend_protocol` makes of it a backend like every other.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sandboxes import protocol as p
from sandboxes.backends.deepagents import from_deepagents, is_deepagents
from sandboxes.backends.first import adapters, by_text
from sandboxes.backends.layered.steps import in_turn, run
from sandboxes.deprecated import warn_deprecated


class BackendProtocolV1(ABC):
    """The first version of the backend protocol. Six methods are a backend; the rest has working defaults."""

    @abstractmethod
    def ls_info(self, path: str) -> list[p.FileInfo]:
        """Files and folders directly in `path`, sorted by path."""

    @abstractmethod
    def read(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> str:
        """`limit` lines from line `offset` (0-based), each with its number (1-based) and a tab before it, or `Error: ...`."""

    @abstractmethod
    def grep_raw(self, pattern: str, path: str | None = None, glob: str | None = None) -> list[p.GrepMatch] | str:
        """The lines that contain `pattern`, or what is wrong."""

    @abstractmethod
    def glob_info(self, pattern: str, path: str = "/") -> list[p.FileInfo]:
        """The files below `path` that match."""

    @abstractmethod
    def write(self, file_path: str, content: str) -> p.WriteResult:
        """Create a file. Create-only."""

    @abstractmethod
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """Replace a string, which must be unique unless `replace_all`."""

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """Write many files, overwriting. This default goes through `write` and `edit`, so it can only write text."""
        return run(in_turn([by_text.upload(self, path, content) for path, content in files]))

    def download_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """Read many files whole. This default goes through `read`, which does not tell whether the last line has an end."""
        return run(in_turn([by_text.download(self, path) for path in paths]))

    async def als_info(self, path: str) -> list[p.FileInfo]:
        """Async form of `ls_info`."""
        return await asyncio.to_thread(self.ls_info, path)

    async def aread(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> str:
        """Async form of `read`."""
        return await asyncio.to_thread(self.read, file_path, offset, limit)

    async def agrep_raw(self, pattern: str, path: str | None = None, glob: str | None = None) -> list[p.GrepMatch] | str:
        """Async form of `grep_raw`."""
        return await asyncio.to_thread(self.grep_raw, pattern, path, glob)

    async def aglob_info(self, pattern: str, path: str = "/") -> list[p.FileInfo]:
        """Async form of `glob_info`."""
        return await asyncio.to_thread(self.glob_info, pattern, path)

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """Async form of `write`."""
        return await asyncio.to_thread(self.write, file_path, content)

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> p.EditResult:
        """Async form of `edit`."""
        return await asyncio.to_thread(self.edit, file_path, old_string, new_string, replace_all)

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """Async form of `upload_files`."""
        return await asyncio.to_thread(self.upload_files, files)

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """Async form of `download_files`."""
        return await asyncio.to_thread(self.download_files, paths)


Backend = BackendProtocolV1
"""Its name in adk-deepagents."""


class SandboxBackendProtocolV1(BackendProtocolV1):
    """A first-version backend that can run commands."""

    @property
    @abstractmethod
    def id(self) -> str:
        """What tells this sandbox from every other."""

    @abstractmethod
    def execute(self, command: str) -> p.ExecuteResponse:
        """Run a shell command."""

    async def aexecute(self, command: str) -> p.ExecuteResponse:
        """Async form of `execute`."""
        return await asyncio.to_thread(self.execute, command)


BackendFactory: TypeAlias = Callable[[Any], p.BackendProtocol | BackendProtocolV1]
"""Makes a backend for a tool runtime (or, in adk-deepagents, for the state). Deprecated: pass the backend itself."""


class BackendContext:
    """What namespace factories used to get: a runtime (each attribute of it is here), and deprecated `runtime` and `state`."""

    def __init__(self, runtime: Any, state: Any = None) -> None:
        self._runtime = runtime
        self._state = state

    @property
    def runtime(self) -> Any:
        """The runtime itself. Deprecated: its attributes are the context's."""
        warn_deprecated("BackendContext.runtime is deprecated: the factory's argument is the runtime itself")
        return self._runtime

    @property
    def state(self) -> Any:
        """The agent's state. Deprecated: it changes from step to step, and what is derived from it would, too."""
        warn_deprecated("BackendContext.state is deprecated: derive what must be stable from the runtime")
        return self._state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._runtime, name)


def adapt_backend_protocol(backend: object, runtime: object = None) -> p.BackendProtocol:
    """`backend` as a backend of the protocol's second version; one that is of it passes as it is.

    Takes backends of the first version, whatever class they derive from, those of the deepagents package, and factories
    (deprecated), which are called with `runtime`. Raises `TypeError` for anything else.
    """
    if isinstance(backend, p.BackendProtocol):
        return backend
    if is_deepagents(backend):
        return from_deepagents(backend)
    if isinstance(backend, type):
        raise TypeError(f"{backend.__name__} is a class: pass an instance of it as the backend")
    if all(callable(getattr(backend, name, None)) for name in adapters.METHODS):
        runs = callable(getattr(backend, "execute", None)) and hasattr(backend, "id")
        return (adapters.AdaptedSandbox if runs else adapters.AdaptedBackend)(backend)
    if callable(backend):
        return _made(backend, runtime)
    missing = [name for name in adapters.METHODS if not callable(getattr(backend, name, None))]
    raise TypeError(
        f"{type(backend).__name__} is not a backend: derive it from sandboxes.protocol.BackendProtocol "
        f"(for the protocol's first version it lacks {', '.join(missing)})"
    )


def _made(factory: Callable[[Any], object], runtime: object) -> p.BackendProtocol:
    warn_deprecated("backend factories are deprecated: pass the backend itself", stacklevel=3)
    try:
        made = factory(runtime)
    except (AttributeError, TypeError) as exc:
        if runtime is not None:
            raise
        raise TypeError("this backend factory needs a runtime, and there is none here: pass the backend itself") from exc
    if made is factory or isinstance(made, type) or not hasattr(made, "read"):
        raise TypeError(f"the backend factory returned {made!r:.80}, which is not a backend")
    return adapt_backend_protocol(made)


def adapt_sandbox_protocol(sandbox: object, runtime: object = None) -> p.SandboxBackendProtocol:
    """Like `adapt_backend_protocol`, for what has to run commands, too. Raises `TypeError` for what cannot."""
    adapted = adapt_backend_protocol(sandbox, runtime)
    if not isinstance(adapted, p.SandboxBackendProtocol):
        raise TypeError(f"{type(sandbox).__name__} cannot run commands: a sandbox needs `id` and `execute(command)`")
    return adapted
