"""The steps of which the store's writes are made. Each runs in the transaction of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from orchestrator.errors import IllegalTransition, StaleLease
from orchestrator.runs import checkpoint_tables as steps
from orchestrator.runs import tables as t
from orchestrator.runs.database import locking, run_of
from orchestrator.runs.frozen import forget_secrets
from orchestrator.runs.models import TRANSITIONS, Artifact, AttemptStatus, Lease, NewEvent, Run, RunError, RunStatus
from orchestrator.runs.outbox import note

GOES_ON = t.runs.c.status.in_([status.value for status in RunStatus if not status.terminal])
"""Runs that have not ended."""


def change_held(connection: Connection, lease: Lease, values: dict[str, Any]) -> Row[Any]:
    """Change a run under its lease; the row as it is then. This is where a stale worker is refused."""
    c = t.runs.c
    condition = (c.id == lease.run_id, c.lease_token == lease.token, c.status == RunStatus.RUNNING.value)
    row = connection.execute(update(t.runs).where(*condition).values(values).returning(t.runs)).one_or_none()
    if row is None:
        raise StaleLease(f"run {lease.run_id}: the lease {lease.token} of {lease.worker} is over")
    return row


def end_run(connection: Connection, run: Run, status: RunStatus, error: RunError | None, moment: datetime) -> None:
    """End a run that the transaction has locked, and the attempt at it that runs. Raises `IllegalTransition`."""
    end_runs(connection, [run], status, error, moment)


def end_runs(
    connection: Connection, runs: Sequence[Run], status: RunStatus, error: RunError | None, moment: datetime
) -> list[str]:
    """End runs as `end_run` does, all of them at once and for the same reason; the ids of all that ended by it.

    What goes on below them ends as well, as `cancelled`, whoever has it.
    """
    if not runs:
        return []
    for run in runs:
        if not status.terminal or status not in TRANSITIONS[run.status]:
            raise IllegalTransition(f"run {run.id} is {run.status}: it cannot end as {status}")
    ids = [run.id for run in runs]
    values = {
        "status": status.value,
        "finished_at": moment,
        **_error_values(error),
        **dict.fromkeys(("sandbox", "snapshot", "interrupt", "decision", "decide_by", "outcome")),
        "last_seq": t.runs.c.last_seq + 1,
    }
    statement = update(t.runs).where(t.runs.c.id.in_(ids)).values(values).returning(t.runs.c.id, t.runs.c.last_seq)
    last = connection.execute(statement).all()
    end_attempts(connection, ids, AttemptStatus(status.value), error, moment)
    data = {"status": status.value, "error": {"kind": error.kind, "message": error.message} if error else None}
    rows = [{"run_id": row.id, "seq": row.last_seq, "type": "run.finished", "at": moment, "data": data} for row in last]
    connection.execute(insert(t.events), rows)
    note(connection, runs, "run.finished", moment, data)
    forget_secrets(connection, ids)
    _forget_checkpoints(connection, [run.id for run in runs if run.attempt and run.spec.get("agent")])
    return [*ids, *end_children(connection, runs, moment)]


def end_children(connection: Connection, parents: Sequence[Run], moment: datetime) -> list[str]:
    """Cancel what goes on below runs that the transaction has locked; the ids of all that ended by it."""
    return end_runs(connection, open_children(connection, parents), RunStatus.CANCELLED, None, moment)


def open_children(connection: Connection, parents: Sequence[Run]) -> list[Run]:
    """The children of these runs that have not ended, locked. Below one that has ended nothing goes on.

    Always from the top down, and by id, so that two that end runs of one tree never wait for each other.
    """
    ids = [run.id for run in parents if run.may_have_children]
    if not ids:
        return []
    query = select(t.runs).where(t.runs.c.parent_id.in_(ids), GOES_ON).order_by(t.runs.c.id)
    return [run_of(row) for row in connection.execute(locking(query))]


def forget_fan_outs(connection: Connection, run: Run, moment: datetime) -> None:
    """A run that the transaction has locked begins again from nothing: its fan-outs are no more, and nobody works at them.

    Their children stay in the record, as the earlier attempts do.
    """
    if run.may_have_children:
        end_children(connection, [run], moment)
        connection.execute(delete(t.fan_outs).where(t.fan_outs.c.run_id == run.id))


def _forget_checkpoints(connection: Connection, run_ids: Sequence[str]) -> None:
    """An agent that has ended goes on nowhere."""
    if run_ids:
        for table in (steps.writes, steps.blobs, steps.checkpoints):
            connection.execute(delete(table).where(table.c.run_id.in_(run_ids)))


def begin_attempt(connection: Connection, run_id: str, number: int, worker: str, moment: datetime) -> None:
    """Record that an attempt begins."""
    values = {"run_id": run_id, "number": number, "worker": worker, "status": AttemptStatus.RUNNING.value}
    connection.execute(insert(t.attempts).values(**values, started_at=moment))


def end_attempt(
    connection: Connection, run_id: str, status: AttemptStatus, error: RunError | None, moment: datetime
) -> None:
    """Record how the attempt ended that runs; nothing when none does."""
    end_attempts(connection, [run_id], status, error, moment)


def end_attempts(
    connection: Connection, run_ids: Sequence[str], status: AttemptStatus, error: RunError | None, moment: datetime
) -> None:
    """Record of each of these runs how the attempt ended that runs."""
    c = t.attempts.c
    values = {"status": status.value, "finished_at": moment, **_error_values(error)}
    open_ones = (c.run_id.in_(run_ids), c.status == AttemptStatus.RUNNING.value)
    connection.execute(update(t.attempts).where(*open_ones).values(values))


def insert_events(connection: Connection, run_id: str, last: int, new: Sequence[NewEvent]) -> None:
    """Insert events whose numbers end with `last`, which the transaction has reserved."""
    first = last - len(new) + 1
    rows = [{"run_id": run_id, "seq": first + i, "type": e.type, "at": e.at, "data": e.data} for i, e in enumerate(new)]
    connection.execute(insert(t.events), rows)


def put_artifact(connection: Connection, artifact: Artifact) -> None:
    """Record an artifact whose content is in place; one of the same name is replaced."""
    c = t.artifacts.c
    connection.execute(delete(t.artifacts).where(c.run_id == artifact.run_id, c.name == artifact.name))
    connection.execute(insert(t.artifacts).values(vars(artifact)))


def _error_values(error: RunError | None) -> dict[str, str | None]:
    return {"error_kind": error.kind if error else None, "error_message": error.message if error else None}
