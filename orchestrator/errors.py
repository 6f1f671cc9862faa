"""One error tree for the package; each class carries the exit code that the command line ends with.

    FanfoldError
    |-- BadInput (2)                what was asked for cannot be done as it was asked
    |   |-- RunNotFound             no run has this id
    |   `-- IllegalTransition       the run is not in a state that allows this
    |-- TaskFailed (1)              the command, the check or the agent did not reach its goal
    |-- InfrastructureError (3)     the sandbox, the queue, the record or the machine failed
    |   |-- StaleLease              another worker has taken this run over
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


class RunNotFound(BadInput):
    """No run has this id, or more than one begins with it."""


class IllegalTransition(BadInput):
    """The run is not in a state that allows what was asked."""


class TaskFailed(FanfoldError):
    """Everything worked but the task: its command, its check or its agent failed."""

    exit_code = 1
    kind = "task"


class InfrastructureError(FanfoldError):
    """Something that the task stands on failed: the sandbox, the queue, the record, the machine."""


class StaleLease(InfrastructureError):
    """The lease of this worker on the run is over: another one holds it, or the run has ended. Nothing was written."""


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
