"""What an exception means for a run: how it ends, who can mend it, and whether another attempt could help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from orchestrator.errors import BudgetExceeded, ErrorKind, FanfoldError, RunCancelled, RunTimedOut
from orchestrator.runs.models import RunError, RunStatus
from sandboxes import errors as s

_INPUT = (s.InvalidSpec, s.Unsupported, s.ImageNotFound, s.ImageBuildFailed, s.ArchiveRefused)


@dataclass(frozen=True)
class Outcome:
    """How a run, or an attempt, ended."""

    status: RunStatus
    error: RunError | None = None
    unexpected: bool = False
    """Whether it is a fault of this program: its traceback is worth keeping."""
    final: bool = False
    """Whether another attempt has no chance, whatever failed."""
    sandbox_lost: bool = False
    """Whether the sandbox has gone: nothing is known of the task itself."""

    @property
    def worth_a_retry(self) -> bool:
        """Whether trying again could end otherwise: bad input stays bad, and who cancels wants no more."""
        return not self.final and self.status is RunStatus.ERROR and self.error is not None and self.error.kind != "input"

    @classmethod
    def settled(cls, noted: Mapping[str, Any]) -> Outcome:
        """The outcome that a worker noted before it was gone; see `Run.outcome`."""
        error = noted.get("error")
        return cls(RunStatus(noted["status"]), RunError(error["kind"], error["message"]) if error else None)

    def told_through(self, redact: Callable[[str], str]) -> Outcome:
        """The same outcome, its message without what `redact` takes out."""
        if self.error is None:
            return self
        return replace(self, error=RunError(self.error.kind, redact(self.error.message)))


def _kind_of(exc: s.FanfoldSandboxError) -> ErrorKind:
    if isinstance(exc, _INPUT):
        return "input"
    return "task" if isinstance(exc, s.PatchRefused) else "infrastructure"


class Question(Exception):
    """A person has to decide before the run can go on."""

    def __init__(self, asked: dict[str, Any], decide_by: datetime) -> None:
        super().__init__("a person is asked")
        self.asked = asked
        self.decide_by = decide_by


SUCCESS = Outcome(RunStatus.SUCCESS)


def outcome_of(exc: BaseException) -> Outcome:
    """The outcome that an exception stands for."""
    if isinstance(exc, RunCancelled):
        return Outcome(RunStatus.CANCELLED)
    if isinstance(exc, RunTimedOut):
        return Outcome(RunStatus.TIMEOUT, RunError("task", str(exc)))
    if isinstance(exc, FanfoldError):
        return Outcome(RunStatus.ERROR, RunError(exc.kind, str(exc)), final=isinstance(exc, BudgetExceeded))
    if isinstance(exc, s.FanfoldSandboxError):
        lost = isinstance(exc, s.SandboxGone | s.SandboxNotFound)
        return Outcome(RunStatus.ERROR, RunError(_kind_of(exc), str(exc)), sandbox_lost=lost)
    message = f"unexpected error in the worker, please report it: {type(exc).__name__}: {exc}"
    return Outcome(RunStatus.ERROR, RunError("infrastructure", message), unexpected=True)
