"""What the protocol's first version called its queries: every backend still answers to these names, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from sandboxes.protocol import FileInfo, GlobResult, GrepMatch, GrepResult, LsResult

    class _Queries(Protocol):
        def ls(self, path: str) -> LsResult: ...

        def grep(self, pattern: str, path: str | None = None, glob: str | None = None) -> GrepResult: ...

        def glob(self, pattern: str, path: str | None = None) -> GlobResult: ...

        def als(self, path: str) -> Awaitable[LsResult]: ...

        def agrep(self, pattern: str, path: str | None = None, glob: str | None = None) -> Awaitable[GrepResult]: ...

        def aglob(self, pattern: str, path: str | None = None) -> Awaitable[GlobResult]: ...


_RENAMED: Final = {
    "ls_info": "ls",
    "grep_raw": "grep",
    "glob_info": "glob",
    "als_info": "als",
    "agrep_raw": "agrep",
    "aglob_info": "aglob",
}


def warn_deprecated(message: str, *, stacklevel: int = 2) -> None:
    """Warn of a deprecated use. `stacklevel` counts from the caller of this function, as in `warnings.warn`."""
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


class FirstVersionNames:
    """The first version's names of `ls`, `grep` and `glob`; each use is a `DeprecationWarning` at the caller's line.

    A subclass must not override one of them in place of the method that is called nowadays: what it wants to change, or to
    forbid, would silently not happen. So that is a `TypeError` when the class is made.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for old, new in _RENAMED.items():
            if _rank(cls, old) < _rank(cls, new):
                raise TypeError(
                    f"{cls.__name__} overrides {old}, which nothing calls any more: override {new}, or derive from "
                    "sandboxes.backends.legacy.BackendProtocolV1 if all of it is of the protocol's first version"
                )

    def ls_info(self: _Queries, path: str) -> list[FileInfo]:
        """The entries of `ls`; none after an error."""
        _renamed("ls_info")
        return self.ls(path).entries or []

    def grep_raw(
        self: _Queries, pattern: str, path: str | None = None, glob: str | None = None
    ) -> list[GrepMatch] | str:
        """The matches of `grep`, or its error."""
        _renamed("grep_raw")
        return _matches_or_error(self.grep(pattern, path, glob))

    def glob_info(self: _Queries, pattern: str, path: str = "/") -> list[FileInfo]:
        """The matches of `glob`; none after an error."""
        _renamed("glob_info")
        return self.glob(pattern, path).matches or []

    # The async forms warn when they are called: when they are awaited, the caller's line may be gone.

    def als_info(self: _Queries, path: str) -> Coroutine[Any, Any, list[FileInfo]]:
        """Async form of `ls_info`."""
        _renamed("als_info")
        return _entries(self.als(path))

    def agrep_raw(
        self: _Queries, pattern: str, path: str | None = None, glob: str | None = None
    ) -> Coroutine[Any, Any, list[GrepMatch] | str]:
        """Async form of `grep_raw`."""
        _renamed("agrep_raw")
        return _matches(self.agrep(pattern, path, glob))

    def aglob_info(self: _Queries, pattern: str, path: str = "/") -> Coroutine[Any, Any, list[FileInfo]]:
        """Async form of `glob_info`."""
        _renamed("aglob_info")
        return _files(self.aglob(pattern, path))


def _rank(cls: type, name: str) -> int:
    """The place in the order of resolution of the class that `name` is taken from."""
    return next(index for index, base in enumerate(cls.__mro__) if name in base.__dict__)


def _renamed(old: str) -> None:
    warn_deprecated(f"{old} is deprecated: call {_RENAMED[old]}, which returns a result with `error`", stacklevel=3)


def _matches_or_error(answer: GrepResult) -> list[GrepMatch] | str:
    return answer.error if answer.error is not None else answer.matches or []


async def _entries(answer: Awaitable[LsResult]) -> list[FileInfo]:
    return (await answer).entries or []


async def _matches(answer: Awaitable[GrepResult]) -> list[GrepMatch] | str:
    return _matches_or_error(await answer)


async def _files(answer: Awaitable[GlobResult]) -> list[FileInfo]:
    return (await answer).matches or []
