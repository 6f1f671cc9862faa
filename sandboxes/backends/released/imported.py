"""Backends of the `deepagents` package as ours. Imported only when there is one; see `deepagents.py`."""

from __future__ import annotations

import errno
import inspect
import posixpath
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from deepagents import backends as theirs
from deepagents.backends import protocol as d

from sandboxes import protocol as p
from sandboxes.backends.layered.steps import Call, SteppedBackend, Steps
from sandboxes.backends.released import as_ours as o
from sandboxes.toolbox.helper import files, text

P = ParamSpec("P")
R = TypeVar("R")


def _answering(kind: Callable[..., R]) -> Callable[
    [Callable[Concatenate[Imported, P], Steps[R]]], Callable[Concatenate[Imported, P], Steps[R]]
]:
    """Make steps answer a refusal, and what theirs raised and a model can mend, with a result of this kind."""

    def decorate(steps: Callable[Concatenate[Imported, P], Steps[R]]) -> Callable[Concatenate[Imported, P], Steps[R]]:
        @wraps(steps)
        def answered(backend: Imported, /, *args: P.args, **kwargs: P.kwargs) -> Steps[R]:
            try:
                return (yield from steps(backend, *args, **kwargs))
            except text.Refused as exc:
                return kind(error=exc.message)
            except Exception as exc:
                return kind(error=backend.mendable(exc))

        return answered

    return decorate


class Imported(SteppedBackend):
    """A backend of theirs, `theirs`. What it raises over a path or a text becomes a result's error."""

    def __init__(self, backend: d.BackendProtocol) -> None:
        self.theirs = backend
        self._root = "/"
        if isinstance(backend, theirs.FilesystemBackend) and not backend.virtual_mode:
            self._root = str(backend.cwd)

    def mendable(self, exc: Exception) -> str:
        """What to tell a model of an exception of theirs; raises it again when it is none of a model's business."""
        if isinstance(exc, OSError) and not isinstance(exc, (ConnectionError, TimeoutError)):
            return f"Error: {exc.strerror or exc}"
        if isinstance(exc, NotImplementedError):
            return f"Error: {type(self.theirs).__name__} cannot do this{': ' if str(exc) else ''}{exc}"
        if isinstance(exc, ValueError):
            return f"Error: {exc}"
        raise exc

    def _call(self, name: str, *arguments: Any, **options: Any) -> list[Call]:
        return [Call(self.theirs, name, arguments, options)]

    def _at(self, path: str) -> Steps[str]:
        """A path, absolute."""
        yield from ()
        absolute: str = text.absolute(path, self._root)
        return absolute

    def _kind(self, path: str) -> Steps[str]:
        """What is at an absolute path: `folder`, `file` or `nothing`. Raises `text.Refused` when a file is above it."""
        kind = yield from self._seen(path)
        if kind == "blocked":
            raise files.refusal(NotADirectoryError(errno.ENOTDIR, ""), path)
        return kind

    def _seen(self, path: str) -> Steps[str]:
        """`folder`, `file`, `nothing`, or `blocked` when a file is where a folder above the path should be."""
        if path == "/":
            return "folder"
        above = posixpath.dirname(path)
        (listed,) = yield self._call("ls", above)
        if listed.error is not None and "not_a_directory" in listed.error:
            return "blocked"
        if listed.error is not None and not o.is_missing(listed.error):
            raise text.Refused(p.INVALID_PATH, o.message(listed.error))
        entries = o.infos(listed.entries or [], above)
        found = next((entry for entry in entries if entry["path"].rstrip("/") == path), None)
        if found is not None:
            return "folder" if found.get("is_dir") else "file"
        return "nothing" if entries or (yield from self._seen(above)) in ("folder", "nothing") else "blocked"

    def _wrong(self, path: str, error: str) -> Steps[str]:
        """What they say is wrong with a file: in our words, when it is missing or a folder."""
        codes = {"folder": p.IS_DIRECTORY, "nothing": p.FILE_NOT_FOUND}
        if o.is_about_kind(error) and (kind := (yield from self._kind(path))) in codes:
            return p.described(path, codes[kind])
        return o.message(error)

    def _folder(self, path: str) -> Steps[None]:
        """Refuse what is no folder. Asked when an answer is empty: theirs find nothing in a folder that is not there."""
        kind = yield from self._kind(path)
        if kind == "file":
            raise _no_folder(path)
        if kind == "nothing":
            raise text.Refused(p.FILE_NOT_FOUND, f"Error: Directory '{path}' not found")

    @_answering(p.LsResult)
    def _ls(self, path: str) -> Steps[p.LsResult]:
        at = yield from self._at(path)
        (answer,) = yield self._call("ls", at)
        if answer.error is not None or not answer.entries:
            yield from self._folder(at)
        if answer.error is not None:
            return p.LsResult(error=o.message(answer.error))
        return p.LsResult(entries=o.infos(answer.entries or [], at))

    @_answering(p.ReadResult)
    def _read(self, path: str, offset: int, limit: int) -> Steps[p.ReadResult]:
        at = yield from self._at(path)
        if offset < 0:
            raise text.Refused("invalid_argument", "Error: offset must not be negative")
        (answer,) = yield self._call("read", at, offset=offset, limit=max(0, limit))
        if o.tells_nothing(answer):
            (whole,) = yield from self._download_files([at])
            if whole.content is not None:
                return o.window(whole.content, at, offset, limit)
        if answer.error is None and answer.file_data is not None:
            return o.read(answer, at, offset, limit)
        error = answer.error or "not found"
        return p.ReadResult(error=o.past_the_end(error, at, offset) or (yield from self._wrong(at, error)))

    @_answering(p.ReadRawResult)
    def _read_raw(self, path: str) -> Steps[p.ReadRawResult]:
        at = yield from self._at(path)
        (answer,) = yield from self._download_files([at])
        if answer.content is None:
            return p.ReadRawResult(error=p.described(at, answer.error or p.FILE_NOT_FOUND))
        return p.ReadRawResult(data=p.encoded(at, answer.content))

    @_answering(p.GrepResult)
    def _grep(self, pattern: str, path: str | None, glob: str | None, max_count: int | None) -> Steps[p.GrepResult]:
        if not pattern:
            raise text.Refused("invalid_argument", "Error: the pattern must not be empty")
        at = yield from self._at("." if path is None else path)
        if glob:
            text.glob_matcher(glob)
        most = None if max_count is None else max(0, max_count)
        counts = {"max_count": max(1, most)} if most is not None and takes(self.theirs.grep, "max_count") else {}
        (answer,) = yield self._call("grep", pattern, path=at, glob=glob or None, **counts)
        if not answer.matches and (yield from self._kind(at)) == "nothing":
            raise text.not_found(at)
        return o.grep(answer, at, most)

    @_answering(p.GlobResult)
    def _glob(self, pattern: str, path: str | None) -> Steps[p.GlobResult]:
        text.glob_matcher(pattern)
        at = yield from self._at("." if path is None else path)
        (answer,) = yield self._call("glob", pattern, path=at)
        if not answer.matches and (kind := (yield from self._kind(at))) != "folder":
            raise text.not_found(at) if kind == "nothing" else _no_folder(at)
        return o.glob(answer, at)

    @_answering(p.WriteResult)
    def _write(self, path: str, content: str) -> Steps[p.WriteResult]:
        at = yield from self._at(path)
        try:
            content.encode("utf-8")
        except UnicodeEncodeError as exc:
            return p.WriteResult(error=f"Error: the content cannot be written as UTF-8: {exc.reason}")
        if (yield from self._kind(at)) != "nothing":
            raise files.exists(at)
        (answer,) = yield self._call("write", at, content)
        return p.WriteResult(path=at) if answer.error is None else p.WriteResult(error=o.message(answer.error))

    @_answering(p.EditResult)
    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Steps[p.EditResult]:
        at = yield from self._at(path)
        if not old:
            raise text.Refused("invalid_argument", "Error: old_string must not be empty")
        (answer,) = yield self._call("edit", at, old, new, replace_all)
        if answer.error is not None:
            known = o.edited(answer.error, at, old)
            return p.EditResult(error=known if "old_string" in known else (yield from self._wrong(at, known)))
        return p.EditResult(path=at, occurrences=answer.occurrences)

    @_answering(p.DeleteResult)
    def _delete(self, path: str) -> Steps[p.DeleteResult]:
        at = yield from self._at(path)
        if at == "/":
            raise text.Refused(p.PERMISSION_DENIED, "Error: '/' cannot be deleted")
        (answer,) = yield self._call("delete", at)
        if answer.error is not None:
            return p.DeleteResult(error=(yield from self._wrong(at, answer.error)))
        return p.DeleteResult(path=at)

    def _upload_files(self, batch: Sequence[tuple[str, bytes]]) -> Steps[list[p.FileUploadResponse]]:
        answers = [p.FileUploadResponse(path) for path, _ in batch]
        places = yield from self._places(answers)
        sent = [(at, batch[index][1]) for index, at in places.items()]
        came = yield from self._batch("upload_files", sent)
        for index, answer in zip(places, came, strict=True):
            answers[index].error = answer.error
        return answers

    def _download_files(self, paths: Sequence[str]) -> Steps[list[p.FileDownloadResponse]]:
        answers = [p.FileDownloadResponse(path) for path in paths]
        places = yield from self._places(answers)
        came = yield from self._batch("download_files", list(places.values()))
        for index, answer in zip(places, came, strict=True):
            found = None if answer.error else answer.content
            answers[index].content = found
            answers[index].error = answer.error or (p.FILE_NOT_FOUND if found is None else None)
        return answers

    def _places(self, answers: Iterable[p.FileUploadResponse | p.FileDownloadResponse]) -> Steps[dict[int, str]]:
        """Absolute paths by their places in a batch. What is no path is answered."""
        places = {}
        for index, answer in enumerate(answers):
            try:
                places[index] = yield from self._at(answer.path)
            except text.Refused as exc:
                answer.error = exc.code
        return places

    def _batch(self, name: str, batch: list[Any]) -> Steps[list[Any]]:
        """As many answers as files, whatever theirs does."""
        if not batch:
            return []
        try:
            (came,) = yield self._call(name, batch)
        except Exception as exc:
            return [p.FileUploadResponse("", error=self.mendable(exc))] * len(batch)
        missing = [p.FileUploadResponse("", error="Error: the backend gave no answer for this file")] * len(batch)
        return [*came, *missing][: len(batch)]


class Lasting(Imported):
    """A backend whose files cannot be deleted."""

    delete = p.BackendProtocol.delete
    adelete = p.BackendProtocol.adelete


def _no_folder(path: str) -> text.Refused:
    return text.Refused(p.INVALID_PATH, f"Error: '{path}' is not a directory")


def takes(method: Callable[..., Any], name: str) -> bool:
    """Whether a method has this parameter; those of older sandboxes may not."""
    found = inspect.signature(method).parameters
    return name in found or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found.values())
