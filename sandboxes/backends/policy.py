"""Rules over any backend: places that are denied or read-only, and hooks before and after each operation.

    PolicyBackend(backend, deny=["/secrets"], read_only=["/docs"], before=check_rate, after=write_to_audit_log)

A prefix is about names. Where a backend knows one file by two names (a symbolic link that it follows, `/proc/self/root` in a
sandbox), a rule for the one does not bind the other: there, use mounts of the sandbox, or a backend that keeps to its root.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from sandboxes import protocol as p
from sandboxes.backends.layered.hooks import Hook, Operation, PolicyRefused, refusal
from sandboxes.backends.layered.places import place, plain, resolved, with_commands, within, workdir_of
from sandboxes.backends.layered.steps import Call, SteppedBackend, Steps, arun, run
from sandboxes.backends.legacy import adapt_backend_protocol
from sandboxes.toolbox.helper import text

__all__ = ["Operation", "PolicyBackend", "PolicyRefused"]

R = TypeVar("R")
F = TypeVar("F", p.FileUploadResponse, p.FileDownloadResponse)
Check: TypeAlias = Callable[[str], None]
Work: TypeAlias = Callable[[Operation], Steps[Any]]
NOT_RUN: Final = 126
"""The exit code of a command that was refused, as a shell's for what it may not execute."""


class PolicyBackend(SteppedBackend):
    """`inner`, under rules.

    What lies in a `deny` folder is neither read, written, listed nor found; what lies in a `read_only` one is not changed.
    A folder that holds either cannot be deleted. Prefixes end where names end: `/deny` does not mean `/denyX`.

    `before` gets each operation that the prefixes allow and may raise `PolicyRefused`; `after` gets each operation and its
    result, refused ones, too. Both may be sync or async. What else they raise reaches the caller: it is a defect of theirs.

    When `inner` is a sandbox, so is this. Prefixes do not bind a shell: with any of them, `execute` is refused unless
    `allow_execute` says that the sandbox enforces the same by itself, or that it does not matter. Hooks see commands.
    """

    def __init__(
        self,
        inner: object,
        *,
        deny: Sequence[str] = (),
        read_only: Sequence[str] = (),
        before: Callable[[Operation], Awaitable[None] | None] | None = None,
        after: Callable[[Operation, Any], Awaitable[None] | None] | None = None,
        allow_execute: bool = False,
    ) -> None:
        self._inner: Final = adapt_backend_protocol(inner)
        self._deny: Final = _places(deny, "deny")
        self._read_only: Final = _places(read_only, "read_only")
        self._before: Final = Hook(before)
        self._after: Final = Hook(after)
        self._allow_execute: Final = allow_execute
        if isinstance(self._inner, p.SandboxBackendProtocol):
            self.__class__ = with_commands(type(self), _Commands)

    @property
    def inner(self) -> p.BackendProtocol:
        """The backend that the rules are for."""
        return self._inner

    @property
    def workdir(self) -> str | None:
        """Where relative paths begin. None when the inner backend does not tell: they are refused then."""
        return workdir_of(self.inner)

    # -- rules

    def _resolved(self, path: str) -> str:
        return resolved(path, self.workdir)

    def _denied(self, path: str) -> bool:
        return any(within(path, where) for where in self._deny)

    def _check(self, path: str) -> None:
        if self._denied(path):
            raise text.Refused(p.PERMISSION_DENIED, f"Error: '{path}' cannot be used: the policy denies it")

    def _check_change(self, path: str) -> None:
        self._check(path)
        if any(within(path, where) for where in self._read_only):
            raise text.Refused(p.PERMISSION_DENIED, f"Error: '{path}' cannot be changed: the policy makes it read-only")

    def _check_delete(self, path: str) -> None:
        self._check_change(path)
        held = [where for where in (*self._deny, *self._read_only) if within(where, path.rstrip("/"))]
        if held:
            reason = f"the policy protects '{held[0]}'"
            raise text.Refused(p.PERMISSION_DENIED, f"Error: '{path}' cannot be deleted: {reason}")

    # -- one operation

    def _operation(self, name: str, key: str, arguments: dict[str, Any], check: Check) -> tuple[Operation, str | None]:
        """An operation on the path `arguments[key]` (None: where relative paths begin), and what is against it."""
        given, error = arguments[key], None
        try:
            if given is not None:
                arguments[key] = self._resolved(given)
                check(arguments[key])
            elif self.workdir is not None:
                check(self.workdir)
        except text.Refused as exc:
            error = str(exc.message)
        return Operation(name, () if given is None else (arguments[key],), arguments), error

    def _performed(self, kind: Callable[..., R], about: tuple[Operation, str | None], work: Work | None = None) -> Steps[R]:
        """Ask the hook, do the work (by default: what was asked for), and tell the other hook. A refusal is a `kind`."""
        operation, refused = about
        if refused is None:
            refused = yield from refusal(self._before, operation)
        if refused is None:
            result = yield from (work or self._passed)(operation)
        else:
            result = kind(error=refused)
        yield [Call(self._after, "tell", (operation, result))]
        answer: R = result
        return answer

    def _passed(self, operation: Operation, **changed: Any) -> Steps[Any]:
        arguments = {**operation.arguments, **changed}
        options = {"max_count": arguments.pop("max_count")} if "max_count" in arguments else {}
        (answer,) = yield [Call(self.inner, operation.name, tuple(arguments.values()), options)]
        return answer

    # -- the protocol

    def _ls(self, path: str) -> Steps[p.LsResult]:
        about = self._operation("ls", "path", {"path": path}, self._check)
        return self._performed(p.LsResult, about, self._listed)

    def _listed(self, operation: Operation) -> Steps[p.LsResult]:
        answer: p.LsResult = yield from self._passed(operation)
        return replace(answer, entries=self._allowed(answer.entries))

    def _allowed(self, found: list[Any] | None) -> list[Any] | None:
        return None if found is None else [one for one in found if not self._denied(plain(one["path"]))]

    def _read(self, path: str, offset: int, limit: int) -> Steps[p.ReadResult]:
        arguments = {"file_path": path, "offset": offset, "limit": limit}
        return self._performed(p.ReadResult, self._operation("read", "file_path", arguments, self._check))

    def _read_raw(self, path: str) -> Steps[p.ReadRawResult]:
        return self._performed(p.ReadRawResult, self._operation("read_raw", "file_path", {"file_path": path}, self._check))

    def _grep(self, pattern: str, path: str | None, glob: str | None, max_count: int | None) -> Steps[p.GrepResult]:
        arguments = {"pattern": pattern, "path": path, "glob": glob, "max_count": max_count}
        return self._performed(p.GrepResult, self._operation("grep", "path", arguments, self._check), self._grepped)

    def _grepped(self, operation: Operation) -> Steps[p.GrepResult]:
        answer: p.GrepResult = yield from self._passed(operation)
        matches, most = self._allowed(answer.matches), operation.arguments["max_count"]
        if matches is None or most is None or not answer.truncated or matches == answer.matches:
            return replace(answer, matches=matches)
        answer = yield from self._passed(operation, max_count=None)  # denied matches took the place of others
        matches = self._allowed(answer.matches) or []
        return replace(answer, matches=matches[:most], truncated=answer.truncated or len(matches) > most)

    def _glob(self, pattern: str, path: str | None) -> Steps[p.GlobResult]:
        about = self._operation("glob", "path", {"pattern": pattern, "path": path}, self._check)
        return self._performed(p.GlobResult, about, self._globbed)

    def _globbed(self, operation: Operation) -> Steps[p.GlobResult]:
        answer: p.GlobResult = yield from self._passed(operation)
        return replace(answer, matches=self._allowed(answer.matches))

    def _write(self, path: str, content: str) -> Steps[p.WriteResult]:
        arguments = {"file_path": path, "content": content}
        return self._performed(p.WriteResult, self._operation("write", "file_path", arguments, self._check_change))

    def _edit(self, path: str, old: str, new: str, replace_all: bool) -> Steps[p.EditResult]:
        arguments = {"file_path": path, "old_string": old, "new_string": new, "replace_all": replace_all}
        return self._performed(p.EditResult, self._operation("edit", "file_path", arguments, self._check_change))

    def _delete(self, path: str) -> Steps[p.DeleteResult]:
        about = self._operation("delete", "file_path", {"file_path": path}, self._check_delete)
        return self._performed(p.DeleteResult, about)

    def _upload_files(self, files: Sequence[tuple[str, bytes]]) -> Steps[list[p.FileUploadResponse]]:
        answers = [p.FileUploadResponse(path) for path, _ in files]
        allowed = self._sorted_out(answers, self._check_change)
        batch = [(path, files[index][1]) for index, path in allowed.items()]
        operation = Operation("upload_files", tuple(allowed.values()), {"files": batch})
        return (yield from self._batch(operation, answers, list(allowed)))

    def _download_files(self, paths: Sequence[str]) -> Steps[list[p.FileDownloadResponse]]:
        answers = [p.FileDownloadResponse(path) for path in paths]
        allowed = self._sorted_out(answers, self._check)
        operation = Operation("download_files", tuple(allowed.values()), {"paths": list(allowed.values())})
        return (yield from self._batch(operation, answers, list(allowed)))

    def _sorted_out(self, answers: Sequence[F], check: Check) -> dict[int, str]:
        """The paths of a batch that the prefixes allow, by their places in it. The others are answered."""
        allowed = {}
        for index, answer in enumerate(answers):
            try:
                path = self._resolved(answer.path)
                check(path)
            except text.Refused as exc:
                answer.error = exc.code
            else:
                allowed[index] = path
        return allowed

    def _batch(self, operation: Operation, answers: list[F], places: list[int]) -> Steps[list[F]]:
        """Perform the allowed part of a batch; hooks get that part, and the answers to all of it."""
        refused = yield from refusal(self._before, operation)
        if refused is None and places:
            replies = yield from self._passed(operation)
            for index, reply in zip(places, replies, strict=True):
                answers[index] = replace(reply, path=answers[index].path)
        for index in places if refused is not None else ():
            answers[index].error = refused
        yield [Call(self._after, "tell", (operation, answers))]
        return answers

    def _execute(self, command: str, timeout: int | None) -> Steps[p.ExecuteResponse]:
        operation = Operation("execute", (), {"command": command, "timeout": timeout})
        bound = (self._deny or self._read_only) and not self._allow_execute
        words = "Error: commands are refused: the policy protects paths, and a shell would not keep to that. Use the file tools"
        return self._performed(_not_run, (operation, words if bound else None), self._executed)

    def _executed(self, operation: Operation) -> Steps[p.ExecuteResponse]:
        command, timeout = operation.arguments["command"], operation.arguments["timeout"]
        (answer,) = yield [Call(self.inner, "execute", (command,), {"timeout": timeout})]
        response: p.ExecuteResponse = answer
        return response


class _Commands(p.SandboxBackendProtocol):
    """What a policy over a sandbox has beyond one over files."""

    inner: p.SandboxBackendProtocol
    _execute: Callable[[str, int | None], Steps[p.ExecuteResponse]]

    @property
    def id(self) -> str:
        return self.inner.id

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        return run(self._execute(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        return await arun(self._execute(command, timeout))


def _not_run(error: str) -> p.ExecuteResponse:
    return p.ExecuteResponse(output=error, exit_code=NOT_RUN)


def _places(prefixes: Sequence[str], what: str) -> tuple[str, ...]:
    if isinstance(prefixes, str):
        raise TypeError(f"{what} is the text {prefixes!r}: give a list of prefixes")
    return tuple(place(prefix, f"{what} prefix") for prefix in prefixes)
