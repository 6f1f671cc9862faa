"""Asking many runs to stop in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, update

from orchestrator.runs import tables as t
from orchestrator.runs.changing import end_runs
from orchestrator.runs.database import run_of
from orchestrator.runs.models import RunStatus

GOES_ON = t.runs.c.status.in_([status.value for status in RunStatus if not status.terminal])
"""Runs that have not ended."""


def stop_runs(connection: Connection, locked: Sequence[Row[Any]], moment: datetime) -> list[str]:
    """Cancel runs that go on, whose rows the transaction has locked; the ids of those that have ended by it.

    Those are the ones that no worker has. The others are asked to stop, and end soon after.
    """
    waiting = [run_of(row) for row in locked if row.status != RunStatus.RUNNING.value]
    if waiting:
        end_runs(connection, waiting, RunStatus.CANCELLED, None, moment)
    running = [row.id for row in locked if row.status == RunStatus.RUNNING.value]
    if running:
        connection.execute(update(t.runs).where(t.runs.c.id.in_(running)).values(cancel_requested=True))
    return [run.id for run in waiting]
