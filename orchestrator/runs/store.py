"""The record in a database: the only thing that changes a run. What a worker writes is in `Holding`.

SQLite has one writer at a time. On PostgreSQL every change of a run begins with the lock of its row, so that two of one run
come one after the other there too.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, update

from orchestrator.errors import IllegalTransition
from orchestrator.runs import tables as t
from orchestrator.runs.adding import add_runs, ensure_tenants
from orchestrator.runs.changing import end_run, insert_events
from orchestrator.runs.database import get_run, now
from orchestrator.runs.holding import Holding
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import NewEvent, NewRun, Run, RunError, RunStatus, WorkerInfo
from orchestrator.runs.reading import MAX_EVENTS, WORKER_TTL, Reader
from orchestrator.runs.retention import Retention
from orchestrator.runs.spending import Spending
from orchestrator.runs.stopping import stop_runs
from orchestrator.runs.threads import Multitask, join_thread

__all__ = ["LEASE_TTL", "MAX_EVENTS", "WORKER_TTL", "Store", "new_run_id", "now"]


def new_run_id() -> str:
    """`run-` and 12 hexadecimal digits."""
    return "run-" + secrets.token_hex(6)


class Store(Reader, Retention, Holding, Spending):
    """Runs, attempts, events, artifacts and workers. Safe to use from many threads and many processes."""

    # Writing as anybody

    def add(self, new: NewRun, multitask: Multitask = Multitask.ENQUEUE, *, sent: bool = True) -> Run:
        """Record a new run, pending, and that its nudge is being sent; without `sent` it waits in the queue.

        What becomes of its thread: see `join_thread`. Limits and turns are not looked at: `Dispatching.add` does that.
        """
        moment = self._now()
        with self._writing() as connection:
            join_thread(connection, new, multitask, moment)
            ensure_tenants(connection, [new], moment)
            add_runs(connection, [new], moment, sent=sent)
            return get_run(connection, new.id)

    def add_many(self, new: Sequence[NewRun], *, sent: bool = False) -> None:
        """Record new runs in this order, all or none of them, as `add` does."""
        moment = self._now()
        with self._writing() as connection:
            for one in new:
                join_thread(connection, one, Multitask.ENQUEUE, moment)
            ensure_tenants(connection, new, moment)
            add_runs(connection, new, moment, sent=sent)

    def request_cancel(self, run_id: str) -> Run:
        """Ask for a run to stop. One that no worker has begun is cancelled at once; one that has ended stays as it is.

        What goes on below it is asked, or cancelled, with it.
        """
        with self._writing() as connection:
            run = get_run(connection, run_id, lock=True)
            if not run.status.terminal:
                stop_runs(connection, [run], self._now())
            return get_run(connection, run_id)

    def abandon(self, run_id: str, error: RunError) -> Run:
        """End a run that no worker has begun, and that none will. Raises `IllegalTransition` when one has."""
        with self._writing() as connection:
            run = get_run(connection, run_id, lock=True)
            if run.status is not RunStatus.PENDING:
                raise IllegalTransition(f"run {run_id} is {run.status}: only a pending run can be given up")
            end_run(connection, run, RunStatus.ERROR, error, self._now())
            return get_run(connection, run_id)

    def decide(self, run_id: str, decision: dict[str, Any]) -> Run:
        """Answer what an interrupted run asks: it waits for a worker then. Raises `IllegalTransition` when it asks nothing."""
        with self._writing() as connection:
            run = get_run(connection, run_id, lock=True)
            if run.status is not RunStatus.INTERRUPTED:
                raise IllegalTransition(f"run {run_id} is {run.status}: it asks for no decision")
            moment = self._now()
            waited = (moment - datetime.fromisoformat(run.interrupt["at"])).total_seconds() if run.interrupt else 0.0
            values = {
                "status": RunStatus.PENDING.value,
                "decision": decision,
                "interrupt": None,
                "decide_by": None,
                "dispatched_at": None,
                "waited": t.runs.c.waited + max(0.0, waited),
                "last_seq": t.runs.c.last_seq + 1,
            }
            statement = update(t.runs).where(t.runs.c.id == run_id).values(values).returning(t.runs.c.last_seq)
            last = connection.execute(statement).scalar_one()
            insert_events(connection, run_id, last, [NewEvent("run.decided", decision, moment)])
            return get_run(connection, run_id)

    # Workers

    def worker_alive(self, worker: WorkerInfo) -> None:
        """Record that a worker is alive now."""
        values = {column.name: getattr(worker, column.name) for column in t.workers.columns}
        with self._writing() as connection:
            connection.execute(delete(t.workers).where(t.workers.c.id == worker.id))
            connection.execute(insert(t.workers).values(values))

    def worker_gone(self, worker_id: str) -> None:
        """Record that a worker takes no more runs."""
        with self._writing() as connection:
            connection.execute(delete(t.workers).where(t.workers.c.id == worker_id))
