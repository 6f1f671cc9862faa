"""Making sure that a worker still holds its run, without a change of the run."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from orchestrator.errors import StaleLease
from orchestrator.runs import tables as t
from orchestrator.runs.database import locking
from orchestrator.runs.models import Lease, RunStatus


def hold(connection: Connection, lease: Lease) -> Row[Any]:
    """The `thread_id` of the run, whose lease cannot end before the transaction does. Raises `StaleLease`.

    On PostgreSQL the writes of one run come one after the other by this lock, as they do on SQLite anyway. Rows that refer to
    the run can still be inserted by others.
    """
    c = t.runs.c
    condition = (c.id == lease.run_id, c.lease_token == lease.token, c.status == RunStatus.RUNNING.value)
    row = connection.execute(locking(select(c.thread_id).where(*condition))).one_or_none()
    if row is None:
        raise StaleLease(f"run {lease.run_id}: the lease {lease.token} of {lease.worker} is over")
    return row
