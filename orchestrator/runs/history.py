"""The attempts at a run in words: for the error of one that is given up."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.runs.models import Attempt


def history(attempts: Iterable[Attempt]) -> str:
    """One line for each attempt that is over: its number, its worker, how it ended and after how long, and why."""
    return "\n".join(_line(attempt) for attempt in attempts if attempt.status.over)


def _line(attempt: Attempt) -> str:
    ended = attempt.finished_at or attempt.started_at
    seconds = max(0.0, (ended - attempt.started_at).total_seconds())
    reason = f": {attempt.error.message}" if attempt.error else ""
    return f"attempt {attempt.number} on {attempt.worker}: {attempt.status} after {seconds:.1f} s{reason}"
