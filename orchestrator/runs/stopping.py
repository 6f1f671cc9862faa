"""Asking many runs to stop in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, update

from orchestrator.runs import tables as t
from orchestrator.runs.changing import end_runs, open_children
from orchestrator.runs.models import Run, RunStatus


def stop_runs(connection: Connection, runs: Sequence[Run], moment: datetime) -> list[str]:
    """Cancel runs that go on, which the transaction has locked; the ids of those that have ended by it.

    Those are the ones that no worker has. The others are asked to stop, and end soon after. The same holds for what goes on
    below them.
    """
    waiting = [run for run in runs if run.status is not RunStatus.RUNNING]
    running = [run for run in runs if run.status is RunStatus.RUNNING]
    ended = end_runs(connection, waiting, RunStatus.CANCELLED, None, moment)
    if running:
        asked = update(t.runs).where(t.runs.c.id.in_([run.id for run in running]))
        connection.execute(asked.values(cancel_requested=True))
        ended += stop_runs(connection, open_children(connection, running), moment)
    return ended
