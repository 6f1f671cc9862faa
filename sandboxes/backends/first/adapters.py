"""Adapters: a backend of the protocol's first version as one of the second. `legacy.adapt_backend_protocol` makes them.

They trust neither the classes nor the manners of what they wrap: results are taken by their fields, a second-version result
passes (a wrapper may well hand one through), and what is raised over a path or a text becomes a result's error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from sandboxes import protocol as p
from sandboxes.backends.first import by_text, numbered
from sandboxes.backends.layered.places import resolved, workdir_of
from sandboxes.backends.layered.steps import Call, SteppedBackend, Steps, answering, arun, in_turn, run
from sandboxes.mime import medium, mime_type
from sandboxes.toolbox.helper import text

METHODS: Final = ("ls_info", "read", "grep_raw", "glob_info", "write", "edit")
"""What a backend of the first version has to have."""

R = TypeVar("R")
F = TypeVar("F", p.FileUploadResponse, p.FileDownloadResponse)


class AdaptedBackend(SteppedBackend):
    """A first-version backend, `inner`, behind the second version's methods."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def inner(self) -> Any:
        """The backend that was adapted."""
        return self._inner

    def _call(self, name: str, *arguments: Any, **options: Any) -> list[Call]:
        return [Call(self._inner, name, arguments, options)]

    def _at(self, path: str) -> str:
        return resolved(path, workdir_of(self))

    @answering(p.LsResult, ValueError, OSError)
    def _ls(self, path: str) -> Steps[p.LsResult]:
        (answer,) = yield self._call("ls_info", self._at(path))
        found = answer if isinstance(answer, list) else taken(p.LsResult, answer).entries
        return p.LsResult(entries=sorted(found or [], key=_path))

    @answering(p.ReadResult, ValueError, OSError)
    def _read(self, path: str, offset: int, limit: int) -> Steps[p.ReadResult]:
        at = self._at(path)
        if limit <= 0:
            return p.ReadResult(file_data=_text(at, ""), no_lines_requested=True)
        if medium(at) is not None and hasattr(self._inner, "download_files"):
            raw = yield from self._read_raw(at)
            return p.ReadResult(error=raw.error, file_data=raw.data)
        (answer,) = yield self._call("read", at, offset=offset, limit=limit)
        if not isinstance(answer, str):
            return taken(p.ReadResult, answer)
        if (wrong := numbered.failure(answer, offset)) is not None:
            return p.ReadResult(error=wrong)
        lines = numbered.lines_of(answer, offset)
        more = len(lines) >= limit and (yield from self._continues(at, offset + len(lines)))
        return _window(at, lines, offset, more)

    def _continues(self, path: str, offset: int) -> Steps[bool]:
        """Whether there are lines from `offset` on: the first version says so only when it is asked for them."""
        (answer,) = yield self._call("read", path, offset=offset, limit=1)
        return numbered.failure(answer, offset) is None and bool(numbered.lines_of(answer, offset))

    @answering(p.ReadRawResult)
    def _read_raw(self, path: str) -> Steps[p.ReadRawResult]:
        at = self._at(path)
        (answer,) = yield from self._download_files([at])
        if answer.content is None:
            return p.ReadRawResult(error=p.described(at, answer.error or p.FILE_NOT_FOUND))
        return p.ReadRawResult(data=p.encoded(at, answer.content))

    @answering(p.GrepResult, ValueError, OSError)
    def _grep(self, pattern: str, path: str | None, glob: str | None, max_count: int | None) -> Steps[p.GrepResult]:
        if not pattern:
            return p.GrepResult(error="Error: the pattern must not be empty")
        (answer,) = yield self._call("grep_raw", pattern, None if path is None else self._at(path), glob)
        if isinstance(answer, str):
            return p.GrepResult(matches=[]) if answer.startswith("No matches") else p.GrepResult(error=answer)
        result = p.GrepResult(matches=answer) if isinstance(answer, list) else taken(p.GrepResult, answer)
        matches = sorted(result.matches or [], key=lambda match: (match["path"], match["line"]))
        kept = matches[: None if max_count is None else max(0, max_count)]
        return p.GrepResult(result.error, None if result.error else kept, result.truncated or len(kept) < len(matches))

    @answering(p.GlobResult, ValueError, OSError)
    def _glob(self, pattern: str, path: str | None) -> Steps[p.GlobResult]:
        text.glob_matcher(pattern)
        (answer,) = yield self._call("glob_info", pattern, "/" if path is None else self._at(path))
        if not isinstance(answer, list):
            return taken(p.GlobResult, answer)
        found = [info for info in answer if not info.get("is_dir") and not info["path"].endswith("/")]
        return p.GlobResult(matches=sorted(found, key=_path))

    @answering(p.WriteResult, ValueError, OSError)
    def _write(self, path: str, content: str) -> Steps[p.WriteResult]:
        (answer,) = yield self._call("write", at := self._at(path), content)
        return _changed(p.WriteResult, answer, at)

    @answering(p.EditResult, ValueError, OSError)
    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Steps[p.EditResult]:
        (answer,) = yield self._call("edit", at := self._at(path), old, new, replace_all)
        return _changed(p.EditResult, answer, at)

    @answering(p.DeleteResult, ValueError, OSError)
    def _delete(self, path: str) -> Steps[p.DeleteResult]:
        if not callable(getattr(self._inner, "delete", None)):
            return p.DeleteResult(error=f"Error: {type(self._inner).__name__} cannot delete files")
        (answer,) = yield self._call("delete", at := self._at(path))
        return _changed(p.DeleteResult, answer, at)

    def _upload_files(self, files: Sequence[tuple[str, bytes]]) -> Steps[list[p.FileUploadResponse]]:
        """Where the first version has no uploads, text is uploaded by writing or editing."""
        if not hasattr(self._inner, "upload_files"):
            return (yield from in_turn([by_text.upload(self._inner, path, content) for path, content in files]))
        answers = [p.FileUploadResponse(path) for path, _ in files]
        places = self._sorted_out(answers)
        batch = [(at, files[index][1]) for index, at in places.items()]
        return (yield from self._batch("upload_files", batch, answers, list(places)))

    def _download_files(self, paths: Sequence[str]) -> Steps[list[p.FileDownloadResponse]]:
        """Where the first version has no downloads, text is downloaded by reading."""
        if not hasattr(self._inner, "download_files"):
            return (yield from in_turn([by_text.download(self._inner, path) for path in paths]))
        answers = [p.FileDownloadResponse(path) for path in paths]
        places = self._sorted_out(answers)
        return (yield from self._batch("download_files", list(places.values()), answers, list(places)))

    def _sorted_out(self, answers: Sequence[F]) -> dict[int, str]:
        """The paths of a batch by their places in it. Those that cannot be are answered."""
        places = {}
        for index, answer in enumerate(answers):
            try:
                places[index] = self._at(answer.path)
            except text.Refused as exc:
                answer.error = exc.code
        return places

    def _batch(self, name: str, batch: list[Any], answers: list[F], places: list[int]) -> Steps[list[F]]:
        if not batch:
            return answers
        try:
            (replies,) = yield self._call(name, batch)
        except (ValueError, OSError) as exc:
            for index in places:
                answers[index].error = f"Error: {exc}"
            return answers
        for index, reply in zip(places, replies, strict=True):
            answers[index] = replace(taken(type(answers[index]), reply), path=answers[index].path)
        return answers


class AdaptedSandbox(AdaptedBackend, p.SandboxBackendProtocol):
    """A first-version sandbox behind the second version's methods."""

    @property
    def id(self) -> str:
        """See the protocol."""
        return str(self._inner.id)

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """See the protocol. A timeout that the first version cannot keep is refused."""
        return run(self._execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        """Async form of `execute`."""
        return await arun(self._execute(command, timeout))

    def _execute(self, command: str, timeout: int | None) -> Steps[p.ExecuteResponse]:
        if timeout is not None and not _takes_timeout(self._inner.execute):
            words = f"Error: {type(self._inner).__name__} cannot limit the time of a command: run it without a timeout"
            return p.ExecuteResponse(output=words, exit_code=126)
        (answer,) = yield self._call("execute", command, **({} if timeout is None else {"timeout": timeout}))
        return taken(p.ExecuteResponse, answer)


def taken(kind: type[R], answer: Any) -> R:
    """`answer` as a `kind`, one of the protocol's result types, by the fields that it has."""
    if isinstance(answer, kind):
        return answer
    wanted = [one.name for one in fields(kind) if hasattr(answer, one.name)]  # type: ignore[arg-type]
    if not wanted:
        raise TypeError(f"a first-version backend answered with {answer!r:.80} where it has to be a {kind.__name__}")
    return kind(**{name: getattr(answer, name) for name in wanted})


def _changed(kind: type[R], answer: Any, path: str) -> R:
    """The result of a change, with its path, its error in words, and where the new content has to go (`files_update`)."""
    result: Any = taken(kind, answer)
    if result.error is None:
        result.path = result.path or path
    else:
        result.error, result.path = p.described(path, result.error), None
    changed: R = result
    return changed


def _window(path: str, lines: list[str], offset: int, more: bool) -> p.ReadResult:
    if not lines:
        return p.ReadResult(file_data=_text(path, ""))
    data = _text(path, "\n".join(lines) + ("\n" if more else ""))
    end = offset + len(lines)
    return p.ReadResult(file_data=data, start_line=offset + 1, end_line=end, next_offset=end if more else None)


def _text(path: str, content: str) -> p.FileData:
    return {"content": content, "encoding": "utf-8", "mime_type": mime_type(path)}


def _path(info: p.FileInfo) -> str:
    return info["path"]


def _takes_timeout(execute: Callable[..., Any]) -> bool:
    parameters = inspect.signature(execute).parameters.values()
    return any(one.name == "timeout" or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
