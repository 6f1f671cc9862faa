"""Backends that are made of other backends: each operation is written once, as steps, and works in both forms.

Steps are a generator that yields calls and gets their answers. `run` makes the calls one after the other, `arun` awaits their
async twins, those of one step at the same time. What a call raises is raised where the steps yielded it.
"""

from __future__ import annotations

import asyncio
import functools
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from sandboxes import protocol as p
from sandboxes.toolbox.helper import text

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A method of a backend, to be called with these arguments."""

    backend: Any
    name: str
    arguments: Sequence[Any] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def now(self) -> Any:
        """Call it."""
        return getattr(self.backend, self.name)(*self.arguments, **self.options)

    async def later(self) -> Any:
        """Await its async twin; a method that has none is called in a thread."""
        twin = getattr(self.backend, "a" + self.name, None)
        return await (asyncio.to_thread(self.now) if twin is None else twin(*self.arguments, **self.options))


Steps: TypeAlias = Generator[Sequence[Call], list[Any], T]


def run(steps: Steps[T]) -> T:
    """What the steps return, by calls in this thread."""
    try:
        calls = next(steps)
        while True:
            try:
                answers = [call.now() for call in calls]
            except Exception as exc:
                calls = steps.throw(exc)
            else:
                calls = steps.send(answers)
    except StopIteration as done:
        value: T = done.value
        return value


async def arun(steps: Steps[T]) -> T:
    """What the steps return, by async calls."""
    try:
        calls = next(steps)
        while True:
            try:
                answers = await _together(calls)
            except Exception as exc:
                calls = steps.throw(exc)
            else:
                calls = steps.send(answers)
    except StopIteration as done:
        value: T = done.value
        return value


async def _together(calls: Sequence[Call]) -> list[Any]:
    if len(calls) == 1:
        return [await calls[0].later()]
    return await asyncio.gather(*(call.later() for call in calls))


def in_turn(many: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Many steps as one, one after the other."""
    answers = []
    for steps in many:
        answers.append((yield from steps))
    return answers


def answering(
    kind: Callable[..., T], *errors: type[Exception]
) -> Callable[[Callable[P, Steps[T]]], Callable[P, Steps[T]]]:
    """Decorates steps that return a `kind`: a refusal, or one of `errors`, that they raise is a `kind` with `error`."""

    def decorate(steps: Callable[P, Steps[T]]) -> Callable[P, Steps[T]]:
        @functools.wraps(steps)
        def answered(*args: P.args, **kwargs: P.kwargs) -> Steps[T]:
            try:
                return (yield from steps(*args, **kwargs))
            except text.Refused as exc:
                return kind(error=exc.message)
            except errors as exc:
                return kind(error=f"Error: {exc}")

        return answered

    return decorate


_OPERATIONS: Final = frozenset(
    ["ls", "read", "read_raw", "grep", "glob", "write", "edit", "delete", "upload_files", "download_files", "execute"]
)


class SteppedBackend(p.BackendProtocol):
    """Base of backends whose operations are steps; a subclass writes `_ls`, `_read` and so on.

    Who overrides a sync method of such a backend, to guard it, is asked in both forms: its async twin then goes through it.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _OPERATIONS:
            if name in cls.__dict__ and "a" + name not in cls.__dict__:
                setattr(cls, "a" + name, _through(name))

    def ls(self, path: str) -> p.LsResult:
        """See the protocol."""
        return run(self._ls(path))

    async def als(self, path: str) -> p.LsResult:
        """See the protocol."""
        return await arun(self._ls(path))

    def read(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> p.ReadResult:
        """See the protocol."""
        return run(self._read(file_path, offset, limit))

    async def aread(self, file_path: str, offset: int = 0, limit: int = p.DEFAULT_READ_LIMIT) -> p.ReadResult:
        """See the protocol."""
        return await arun(self._read(file_path, offset, limit))

    def read_raw(self, file_path: str) -> p.ReadRawResult:
        """See the protocol."""
        return run(self._read_raw(file_path))

    async def aread_raw(self, file_path: str) -> p.ReadRawResult:
        """See the protocol."""
        return await arun(self._read_raw(file_path))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        return run(self._grep(pattern, path, glob, max_count))

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> p.GrepResult:
        """See the protocol."""
        return await arun(self._grep(pattern, path, glob, max_count))

    def glob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return run(self._glob(pattern, path))

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        """See the protocol."""
        return await arun(self._glob(pattern, path))

    def write(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        return run(self._write(file_path, content))

    async def awrite(self, file_path: str, content: str) -> p.WriteResult:
        """See the protocol."""
        return await arun(self._write(file_path, content))

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> p.EditResult:
        """See the protocol."""
        return run(self._edit(file_path, old_string, new_string, replace_all))

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> p.EditResult:
        """See the protocol."""
        return await arun(self._edit(file_path, old_string, new_string, replace_all))

    def delete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        return run(self._delete(file_path))

    async def adelete(self, file_path: str) -> p.DeleteResult:
        """See the protocol."""
        return await arun(self._delete(file_path))

    def upload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol."""
        return run(self._upload_files(files))

    async def aupload_files(self, files: Sequence[tuple[str, bytes]]) -> list[p.FileUploadResponse]:
        """See the protocol."""
        return await arun(self._upload_files(files))

    def download_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return run(self._download_files(paths))

    async def adownload_files(self, paths: Sequence[str]) -> list[p.FileDownloadResponse]:
        """See the protocol."""
        return await arun(self._download_files(paths))

    @abstractmethod
    def _ls(self, path: str) -> Steps[p.LsResult]: ...

    @abstractmethod
    def _read(self, path: str, offset: int, limit: int) -> Steps[p.ReadResult]: ...

    @abstractmethod
    def _read_raw(self, path: str) -> Steps[p.ReadRawResult]: ...

    @abstractmethod
    def _grep(self, pattern: str, path: str | None, glob: str | None, max_count: int | None) -> Steps[p.GrepResult]: ...

    @abstractmethod
    def _glob(self, pattern: str, path: str | None) -> Steps[p.GlobResult]: ...

    @abstractmethod
    def _write(self, path: str, content: str) -> Steps[p.WriteResult]: ...

    @abstractmethod
    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Steps[p.EditResult]: ...

    @abstractmethod
    def _delete(self, path: str) -> Steps[p.DeleteResult]: ...

    @abstractmethod
    def _upload_files(self, files: Sequence[tuple[str, bytes]]) -> Steps[list[p.FileUploadResponse]]: ...

    @abstractmethod
    def _download_files(self, paths: Sequence[str]) -> Steps[list[p.FileDownloadResponse]]: ...


def _through(name: str) -> Callable[..., Any]:
    """The async form of an overridden sync method."""

    async def twin(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **kwargs)

    return twin
