"""One tree of files out of many backends: each path goes to the backend that is mounted closest above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from sandboxes import protocol as p
from sandboxes.backends.layered.merging import merged_glob, merged_grep
from sandboxes.backends.layered.places import patterns_below, place, plain, renamed, resolved, with_commands, within, workdir_of
from sandboxes.backends.layered.steps import Call, SteppedBackend, Steps, answering
from sandboxes.backends.legacy import adapt_backend_protocol
from sandboxes.toolbox.helper import files, text

R = TypeVar("R", p.FileUploadResponse, p.FileDownloadResponse)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Branch:
    """A backend and the place where it is mounted; the default's place is the root."""

    place: str
    backend: p.BackendProtocol

    def inside(self, path: str) -> str:
        """A path within the place as the backend knows it."""
        return path[len(self.place) :] or "/"

    def outside(self, path: str) -> str:
        """A path of the backend as the composite's caller knows it."""
        return self.place + "/" + path.lstrip("/") if plain(path) != "/" else self.place or "/"


@dataclass(frozen=True)
class Search:
    """One backend to be searched, from `path` in it, for the files that match `glob` (None: all)."""

    branch: Branch
    path: str | None
    glob: str | None


class CompositeBackend(SteppedBackend):
    """Routes each path by its longest matching prefix, and shows all as one tree.

    `routes` maps folders (`/memories/` and `/memories` are the same) to backends; everything else is in `default`. A backend
    sees the rest of the path, with a `/` before it; listings, matches and errors come back with the path that was asked for.
    Files of `default` that lie below a route are hidden by it. Backends of the protocol's first version are adapted.

    When `default` is a sandbox, so is the composite, and `execute` runs there. `artifacts_root` is the folder below which a
    harness puts what it stores by itself, such as large tool results. Raises `ValueError` for routes that cannot be.
    """

    def __init__(
        self, default: object, routes: Mapping[str, object] | None = None, *, artifacts_root: str = "/"
    ) -> None:
        self._default: Final = Branch("", adapt_backend_protocol(default))
        self._mounts: Final = _mounts(routes or {})
        self._artifacts_root: Final = place(artifacts_root, "artifacts_root") or "/"
        if isinstance(self.default, p.SandboxBackendProtocol):
            self.__class__ = with_commands(type(self), _Commands)

    @property
    def default(self) -> p.BackendProtocol:
        """The backend of every path that no route takes."""
        return self._default.backend

    @property
    def routes(self) -> dict[str, p.BackendProtocol]:
        """The mounted backends by their folders, each with its closing `/`; longest first."""
        return {branch.place + "/": branch.backend for branch in self._mounts}

    @property
    def artifacts_root(self) -> str:
        """The folder for what a harness stores by itself: absolute, without a closing `/` unless it is the root."""
        return self._artifacts_root

    @property
    def workdir(self) -> str | None:
        """Where relative paths begin: where the default's do. None when it does not tell: they are refused then."""
        return workdir_of(self.default)

    # -- where a path belongs

    def _branch(self, path: str) -> Branch:
        return next((branch for branch in self._mounts if within(path, branch.place)), self._default)

    def _below(self, path: str) -> list[Branch]:
        """The routes that are mounted below `path`, not at it."""
        at = path.rstrip("/")
        return [branch for branch in self._mounts if branch.place != at and within(branch.place, at)]

    def _shown(self, branch: Branch, path: str) -> bool:
        """Whether a file that `branch` has at `path` can be seen there, and is not under another backend."""
        return self._branch(path) is branch and not self._below(path)

    def _resolved(self, path: str) -> str:
        return resolved(path, self.workdir)

    def _file(self, path: str) -> str:
        """The path of a file. A folder that is there because a route is below it is refused."""
        at = self._resolved(path)
        if at != "/" and self._below(at):
            raise text.Refused(p.IS_DIRECTORY, p.described(at, p.IS_DIRECTORY))
        return at

    def _passed(self, kind: type[T], name: str, at: str, *arguments: Any) -> Steps[T]:
        """The answer, a `kind`, of the backend that has the path, with the path that was asked for."""
        branch = self._branch(at)
        answer: Any
        (answer,) = yield [Call(branch.backend, name, (branch.inside(at), *arguments))]
        if answer.error is not None:
            answer = replace(answer, error=renamed(answer.error, branch.inside(at), at))
        elif getattr(answer, "path", None):
            answer = replace(answer, path=branch.outside(answer.path))
        outside: T = answer
        return outside

    # -- the protocol

    @answering(p.LsResult)
    def _ls(self, path: str) -> Steps[p.LsResult]:
        at = self._resolved(path)
        answer = yield from self._passed(p.LsResult, "ls", at)
        branch, folders = self._branch(at), _folders(at, self._below(at))
        if answer.error is not None and not folders:
            return p.LsResult(error=answer.error)
        entries: dict[str, p.FileInfo] = {folder: {"path": folder + "/", "is_dir": True} for folder in folders}
        for entry in answer.entries or []:
            entry["path"] = branch.outside(entry["path"])
            name = plain(entry["path"])
            if self._branch(name) is branch and (name not in folders or entry.get("is_dir")):
                entries[name] = entry
        return p.LsResult(entries=sorted(entries.values(), key=lambda entry: entry["path"]))

    @answering(p.ReadResult)
    def _read(self, path: str, offset: int, limit: int) -> Steps[p.ReadResult]:
        return (yield from self._passed(p.ReadResult, "read", self._file(path), offset, limit))

    @answering(p.ReadRawResult)
    def _read_raw(self, path: str) -> Steps[p.ReadRawResult]:
        return (yield from self._passed(p.ReadRawResult, "read_raw", self._file(path)))

    @answering(p.WriteResult)
    def _write(self, path: str, content: str) -> Steps[p.WriteResult]:
        at = self._resolved(path)
        if at != "/" and self._below(at):
            raise files.exists(at)
        return (yield from self._passed(p.WriteResult, "write", at, content))

    @answering(p.EditResult)
    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Steps[p.EditResult]:
        return (yield from self._passed(p.EditResult, "edit", self._file(path), old, new, replace_all))

    @answering(p.DeleteResult)
    def _delete(self, path: str) -> Steps[p.DeleteResult]:
        at = self._resolved(path)
        mounted = next((branch.place for branch in self._mounts if within(branch.place, at.rstrip("/"))), None)
        if mounted is not None:
            words = f"Error: '{at}' cannot be deleted: another backend is mounted at '{mounted}'. Delete what is in it"
            return p.DeleteResult(error=words)
        return (yield from self._passed(p.DeleteResult, "delete", at))

    @answering(p.GrepResult)
    def _grep(self, pattern: str, path: str | None, glob: str | None, max_count: int | None) -> Steps[p.GrepResult]:
        if not pattern:
            raise text.Refused("invalid_argument", "Error: the pattern must not be empty")
        searches = self._searches(path, glob)
        answers = yield [_grepping(search, pattern, max_count) for search in searches]
        again = [at for at, search in enumerate(searches) if max_count is not None and self._hides(search, answers[at])]
        if again:
            more = yield [_grepping(searches[at], pattern, None) for at in again]
            for at, answer in zip(again, more, strict=True):
                answers[at] = answer
        return merged_grep([self._seen(*pair) for pair in self._telling(searches, answers)], max_count)

    @answering(p.GlobResult)
    def _glob(self, pattern: str, path: str | None) -> Steps[p.GlobResult]:
        text.glob_matcher(pattern)
        searches = self._searches(path, pattern)
        answers = yield [Call(one.branch.backend, "glob", (one.glob, one.path)) for one in searches]
        return merged_glob([self._seen(*pair) for pair in self._telling(searches, answers)])

    # -- searching

    def _searches(self, path: str | None, glob: str | None) -> list[Search]:
        """What to search for `path`: the backend that has it and the routes below it; None means everything."""
        at = "/" if path is None else self._resolved(path)
        branch = self._branch(at)
        glob = glob or None
        searches = [Search(branch, None if path is None else branch.inside(at), glob)]
        base = (self.workdir or "/").rstrip("/")
        for below in self._below(at):
            origin = base if path is None and within(below.place, base) and below.place != base else at.rstrip("/")
            folders = below.place[len(origin) + 1 :]
            patterns = [None] if glob is None else patterns_below(glob, folders)
            searches += [Search(below, "/", one) for one in patterns]
        return searches

    def _hides(self, search: Search, answer: p.GrepResult) -> bool:
        """Whether matches of hidden files took the place of others in an answer that is not complete."""
        found = (search.branch.outside(match["path"]) for match in answer.matches or [])
        return answer.truncated and not all(self._shown(search.branch, plain(path)) for path in found)

    def _telling(self, searches: list[Search], answers: list[Any]) -> Iterable[tuple[Search, Any]]:
        """The answers that tell something: a folder that only routes are in need not exist in the backend above them."""
        pairs = list(zip(searches, answers, strict=True))
        first, answer = pairs[0]
        at = first.branch.outside(first.path or "/")
        if answer.error is not None and self._below(at) and answer.error.endswith(f"'{first.path}' not found"):
            pairs = pairs[1:]
        return pairs

    def _seen(self, search: Search, answer: Any) -> Any:
        """An answer of one backend as the composite's: with its own paths, and without what another backend hides."""
        branch = search.branch
        if answer.error is not None:
            return replace(answer, error=renamed(answer.error, search.path or "/", branch.outside(search.path or "/")))
        found = [{**match, "path": branch.outside(match["path"])} for match in answer.matches or []]
        return replace(answer, matches=[match for match in found if self._shown(branch, plain(match["path"]))])

    # -- batches

    def _upload_files(self, batch: Sequence[tuple[str, bytes]]) -> Steps[list[p.FileUploadResponse]]:
        answers = [p.FileUploadResponse(path) for path, _ in batch]
        groups = self._grouped(answers)
        yield from _batches("upload_files", groups, answers, [content for _, content in batch])
        return answers

    def _download_files(self, paths: Sequence[str]) -> Steps[list[p.FileDownloadResponse]]:
        answers = [p.FileDownloadResponse(path) for path in paths]
        yield from _batches("download_files", self._grouped(answers), answers, None)
        return answers

    def _grouped(self, answers: Sequence[R]) -> dict[Branch, dict[int, str]]:
        """The paths of a batch by the backend that has them, each with its place in the batch. Refused ones are answered."""
        groups: dict[Branch, dict[int, str]] = {}
        for index, answer in enumerate(answers):
            try:
                at = self._file(answer.path)
            except text.Refused as exc:
                answer.error = exc.code
            else:
                groups.setdefault(self._branch(at), {})[index] = at
        return groups


class _Commands(p.SandboxBackendProtocol):
    """What a composite over a sandbox has beyond one over files."""

    default: p.SandboxBackendProtocol

    @property
    def id(self) -> str:
        return self.default.id

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        return self.default.execute(command, timeout=timeout)

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        return await self.default.aexecute(command, timeout=timeout)


def _mounts(routes: Mapping[str, object]) -> list[Branch]:
    """The routes, longest first."""
    found: dict[str, Branch] = {}
    for path, backend in routes.items():
        where = place(path, "route")
        if not where:
            raise ValueError("route '/' takes everything: pass that backend as the default")
        if where in found:
            raise ValueError(f"route {path!r} is there twice: '{where}' and '{where}/' are the same")
        found[where] = Branch(where, adapt_backend_protocol(backend))
    return sorted(found.values(), key=lambda branch: (-len(branch.place), branch.place))


def _folders(at: str, below: Iterable[Branch]) -> set[str]:
    """The folders directly in `at` that are there because routes are in them."""
    above = at.rstrip("/")
    return {above + "/" + branch.place[len(above) + 1 :].split("/")[0] for branch in below}


def _grepping(search: Search, pattern: str, max_count: int | None) -> Call:
    return Call(search.branch.backend, "grep", (pattern, search.path, search.glob), {"max_count": max_count})


def _batches(
    name: str, groups: dict[Branch, dict[int, str]], answers: list[Any], contents: Sequence[bytes] | None
) -> Steps[None]:
    """One call for each backend; its answers go to their places in the whole batch."""
    calls = []
    for branch, paths in groups.items():
        inside = {index: branch.inside(at) for index, at in paths.items()}
        batch = list(inside.values()) if contents is None else [(path, contents[index]) for index, path in inside.items()]
        calls.append(Call(branch.backend, name, (batch,)))
    replies = yield calls
    for (branch, paths), reply in zip(groups.items(), replies, strict=True):
        for (index, at), answer in zip(paths.items(), reply, strict=True):
            error = None if answer.error is None else renamed(answer.error, branch.inside(at), at)
            answers[index] = replace(answer, path=answers[index].path, error=error)
