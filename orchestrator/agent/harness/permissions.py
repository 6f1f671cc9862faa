"""Permissions around the calls of one tool: asked before the backend, and again for what it lists or finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.tools import ToolException

from orchestrator.permissions import FileOperation, FilesystemPermission, Rules, Verdict
from sandboxes.backends.layered.steps import Call, Steps
from sandboxes.toolbox.helper import text

T = TypeVar("T")

Ask = Callable[[FilesystemPermission, FileOperation, str], None]
"""Asks a human about an operation on a path; returns when it may be done, and raises otherwise."""

_OPERATIONS: dict[str, tuple[FileOperation, ...]] = {
    "ls": ("read",),
    "read": ("read",),
    "download_files": ("read",),
    "grep": ("read",),
    "glob": ("read",),
    "write": ("write",),
    "edit": ("read", "write"),
    "delete": ("write",),
}
_PATH_AT = {"grep": 1, "glob": 1}
_WORDS: dict[FileOperation, str] = {"read": "read", "write": "changed"}


__all__ = ["Ask", "FilesystemPermission", "Guard"]


@dataclass
class Guard:
    """The rules of one tool call. A rule that a human has lifted stays lifted until the call ends."""

    rules: Rules
    workdir: str
    """Where relative paths begin."""
    ask: Ask

    def __post_init__(self) -> None:
        """Nothing is lifted yet."""
        self._lifted: list[FilesystemPermission] = []

    def around(self, steps: Steps[T]) -> Steps[T]:
        """The same work, with each call checked, and made with the path that was judged: absolute and normalized.

        Raises `ToolException` where a rule denies it.
        """
        answers: list[Any] | None = None
        while True:
            try:
                calls = next(steps) if answers is None else steps.send(answers)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answers = []
            for call in calls:
                judged = yield from self._judged(call)
                [answer] = yield [judged]
                answers.append(self._visible(call.name, answer))

    def _judged(self, call: Call) -> Steps[Call]:
        if call.name not in _OPERATIONS:
            return call
        place = _PATH_AT.get(call.name, 0)
        given = call.arguments[place]
        paths = [self._absolute(path or ".") for path in (given if isinstance(given, list) else [given])]
        for operation in _OPERATIONS[call.name]:
            for path in paths:
                self._judge(self.rules.verdict(operation, path), operation, path)
        if call.name == "delete":
            yield from self._check_folder(call.backend, paths[0])
        arguments = list(call.arguments)
        arguments[place] = paths if isinstance(given, list) else paths[0]
        return replace(call, arguments=arguments)

    def _absolute(self, path: str) -> str:
        try:
            full: str = text.absolute(path, self.workdir)
        except text.Refused as exc:
            raise ToolException(exc.message) from exc
        return full

    def _judge(self, verdict: Verdict, operation: FileOperation, path: str) -> None:
        if verdict.rule is None or verdict.mode == "allow" or verdict.rule in self._lifted:
            return
        if verdict.mode == "deny":
            raise ToolException(f"Error: '{path}' must not be {_WORDS[operation]}: a permission denies it")
        self.ask(verdict.rule, operation, path)
        self._lifted.append(verdict.rule)

    def _check_folder(self, backend: Any, path: str) -> Steps[None]:
        """A folder must not be deleted while a rule protects, or may protect, something in it."""
        if self.rules.verdict_below("write", path, self._lifted).rule is None:
            return
        [listed] = yield [Call(backend, "ls", (path,))]
        if listed.error is None:
            raise ToolException(
                f"Error: '{path}' must not be deleted as a whole: a permission protects what is, or may be, in it. "
                "Delete its other files one by one"
            )

    def _visible(self, name: str, result: Any) -> Any:
        """A result without what must not be read."""
        if name == "ls" and result.entries is not None:
            return replace(result, entries=[entry for entry in result.entries if self._may_read(entry["path"])])
        if name in ("grep", "glob") and result.matches is not None:
            return replace(result, matches=[match for match in result.matches if self._may_read(match["path"])])
        return result

    def _may_read(self, path: str) -> bool:
        verdict = self.rules.verdict("read", self._absolute(path))
        return verdict.mode == "allow" or verdict.rule in self._lifted
