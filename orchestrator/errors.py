"""One error tree for the package; each class carries the exit code that the command line ends with.

    FanfoldError
    |-- BadInput (2)                what was asked for cannot be done as it was asked
    |   |-- NotFound                what was asked for is not there
    |   |   `-- RunNotFound         no run has this id
    |   |-- Conflict                what is there does not allow it now
    |   |   `-- IllegalTransition   the run is not in a state that allows this
    |   `-- QuotaExceeded           the tenant has used up what it may; later it may again
    |-- TaskFailed (1)              the command, the check or the agent did not reach its goal
    |   `-- BudgetExceeded          the run used up its budget before
    |-- InfrastructureError (3)     the sandbox, the queue, the record or the machine failed
    |   |-- StaleLease              another worker has taken this run over
    |   |-- RecordUnavailable       the record does not answer: it may again, soon
    |   `-- WorkerUnavailable       no worker runs, and none could be started
    |-- RunTimedOut (4)             the run used up its time
    `-- RunCancelled (130)          somebody asked for the run to stop

A message says what was wrong, where, and what to do about it. It is shown to people as it is.
"""

from __future__ import annotations

from typing import ClassVar, Literal

ErrorKind = Literal["task", "input", "infrastructure"]
"""Who can mend it: the task's author, whoever submitted the run, or the operator."""


class FanfoldError(Exception):
    """Base of everything this package raises on purpose."""

    exit_code: ClassVar[int] = 3
    kind: ClassVar[ErrorKind] = "infrastructure"


class BadInput(FanfoldError):
    """What the caller gave makes no sense, is not there, or is not allowed."""

    exit_code = 2
    kind = "input"


class NotFound(BadInput):
    """What was asked for is not there, or is another tenant's."""


class RunNotFound(NotFound):
    """No run has this id, or more than one begins with it."""


class Conflict(BadInput):
    """What is there does not allow what was asked, as it is now."""


class IllegalTransition(Conflict):
    """The run is not in a state that allows what was asked."""


class QuotaExceeded(BadInput):
    """The tenant has used up what it may. `retry_after` is when to ask again, in seconds from now."""

    def __init__(self, message: str, *, retry_after: float = 60.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TaskFailed(FanfoldError):
    """Everything worked but the task: its command, its check or its agent failed."""

    exit_code = 1
    kind = "task"


class BudgetExceeded(TaskFailed):
    """The run used up its budget. Trying again would not help: every attempt counts."""


class InfrastructureError(FanfoldError):
    """Something that the task stands on failed: the sandbox, the queue, the record, the machine."""


class StaleLease(InfrastructureError):
    """The lease of this worker on the run is over: another one holds it, or the run has ended. Nothing was written."""


class RecordUnavailable(InfrastructureError):
    """The record cannot be read or written now. What was asked for may, or may not, have been written."""


class WorkerUnavailable(InfrastructureError):
    """No worker is alive, and none could be started."""


class RunTimedOut(FanfoldError):
    """The run used up its `timeout`."""

    exit_code = 4
    kind = "task"


class RunCancelled(FanfoldError):
    """Somebody asked for the run to stop."""

    exit_code = 130
    kind = "task"
