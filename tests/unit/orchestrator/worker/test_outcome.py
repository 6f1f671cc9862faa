"""Every exception has its meaning for a run."""

from __future__ import annotations

import pytest

from orchestrator import errors as o
from orchestrator.runs.models import Run, RunStatus
from orchestrator.runs.store import now
from orchestrator.worker.outcome import outcome_of
from sandboxes import errors as s


@pytest.mark.parametrize(
    ("exc", "status", "kind", "exit_code", "retry"),
    [
        (o.TaskFailed("x"), RunStatus.ERROR, "task", 1, True),
        (o.BadInput("x"), RunStatus.ERROR, "input", 2, False),
        (o.InfrastructureError("x"), RunStatus.ERROR, "infrastructure", 3, True),
        (o.RunTimedOut("x"), RunStatus.TIMEOUT, "task", 4, False),
        (o.RunCancelled("x"), RunStatus.CANCELLED, None, 130, False),
        (s.InvalidSpec("x"), RunStatus.ERROR, "input", 2, False),
        (s.Unsupported("x"), RunStatus.ERROR, "input", 2, False),
        (s.ImageNotFound("x"), RunStatus.ERROR, "input", 2, False),
        (s.ProviderUnavailable("x"), RunStatus.ERROR, "infrastructure", 3, True),
        (s.SandboxGone("x"), RunStatus.ERROR, "infrastructure", 3, True),
        (ZeroDivisionError("x"), RunStatus.ERROR, "infrastructure", 3, True),
    ],
)
def test_an_exception_becomes_an_outcome(
    exc: Exception, status: RunStatus, kind: str | None, exit_code: int, retry: bool
) -> None:
    outcome = outcome_of(exc)
    assert outcome.status is status
    assert (outcome.error.kind if outcome.error else None) == kind
    assert outcome.worth_a_retry is retry
    run = Run("run-1", "x", outcome.status, {}, now(), error=outcome.error)
    assert run.exit_code == exit_code
