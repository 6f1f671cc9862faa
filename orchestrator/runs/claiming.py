"""Taking a run, in the transaction of whoever has looked whether it may: a worker for itself, or for the child of its run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, literal, select, update

from orchestrator.runs import tables as t
from orchestrator.runs.changing import begin_attempt, end_attempt
from orchestrator.runs.columns import UtcDateTime
from orchestrator.runs.leases import STEADY
from orchestrator.runs.models import AttemptStatus, Lease, RunStatus


def take(connection: Connection, found: Any, worker: str, moment: datetime, **more: Any) -> Lease:
    """Claim a run whose row the transaction has locked and found to be free; `more` is noted with it.

    An attempt begins; the one of a worker that died is lost. `found` has the run's `id`, `status`, `heartbeat_at` and `lost`.
    """
    c = t.runs.c
    lost = _losses(connection, found)
    end_attempt(connection, found.id, AttemptStatus.LOST, None, found.heartbeat_at or moment)
    values = {
        "status": RunStatus.RUNNING.value,
        "worker": worker,
        "heartbeat_at": moment,
        "started_at": func.coalesce(c.started_at, literal(moment, UtcDateTime)),
        "lease_token": c.lease_token + 1,
        "attempt": c.attempt + 1,
        "lost": lost,
        "epoch": case((_nothing_to_go_on_with(), c.attempt + 1), else_=c.epoch),
        **more,
    }
    statement = update(t.runs).where(c.id == found.id).values(values).returning(c.lease_token, c.attempt)
    taken = connection.execute(statement).one()
    begin_attempt(connection, found.id, taken.attempt, worker, moment)
    return Lease(found.id, taken.lease_token, worker)


def _losses(connection: Connection, found: Any) -> int:
    """How many workers the run has lost, each soon after it had begun, with the one that is lost now; see `STEADY`."""
    if found.status != RunStatus.RUNNING.value:
        return int(found.lost)
    c = t.attempts.c
    query = select(c.started_at).where(c.run_id == found.id, c.status == AttemptStatus.RUNNING.value)
    begun = connection.execute(query).scalar()
    steady = begun is not None and found.heartbeat_at - begun > timedelta(seconds=STEADY)
    return 1 if steady else int(found.lost) + 1


def _nothing_to_go_on_with() -> ColumnElement[bool]:
    # An agent that has not used its sandbox has none, and is `sandbox_ready` all the same.
    return and_(t.runs.c.sandbox.is_(None), t.runs.c.snapshot.is_(None), ~t.runs.c.sandbox_ready)
