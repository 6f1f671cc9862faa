"""The record in a database: the only thing that changes a run.

A worker writes with the `Lease` that its claim gave it. Each such write names the lease's token, in the same transaction; when
another worker has claimed the run since, or the run has ended, it is refused with `StaleLease` and nothing is written.

SQLite has one writer at a time. On PostgreSQL every change of a run begins with the lock of its row, so that two of one run
come one after the other there too.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, literal, select, update

from orchestrator.errors import IllegalTransition
from orchestrator.runs import tables as t
from orchestrator.runs.changing import begin_attempt, change_held, end_attempt, end_run, insert_events
from orchestrator.runs.columns import UtcDateTime
from orchestrator.runs.database import get_run, now, run_of
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import (
    Artifact,
    AttemptStatus,
    Lease,
    ModelUsage,
    NewEvent,
    NewRun,
    Run,
    RunError,
    RunStatus,
    WorkerInfo,
)
from orchestrator.runs.reading import MAX_EVENTS, WORKER_TTL, Reader, claimable
from orchestrator.runs.retention import Retention

__all__ = ["LEASE_TTL", "MAX_EVENTS", "WORKER_TTL", "Store", "new_run_id", "now"]


def new_run_id() -> str:
    """`run-` and 12 hexadecimal digits."""
    return "run-" + secrets.token_hex(6)


class Store(Reader, Retention):
    """Runs, attempts, events, artifacts and workers. Safe to use from many threads and many processes."""

    # Writing as anybody

    def add(self, new: NewRun) -> Run:
        """Record a new run, pending, and that its nudge is being sent."""
        moment = self._now()
        with self._writing() as connection:
            connection.execute(insert(t.runs).values(**_values_of(new, moment), dispatched_at=moment))
            return get_run(connection, new.id)

    def request_cancel(self, run_id: str) -> Run:
        """Ask for a run to stop. One that no worker has begun is cancelled at once; one that has ended stays as it is."""
        with self._writing() as connection:
            run = get_run(connection, run_id, lock=True)
            if run.status in (RunStatus.PENDING, RunStatus.INTERRUPTED):
                end_run(connection, run, RunStatus.CANCELLED, None, self._now())
            elif not run.status.terminal:
                connection.execute(update(t.runs).where(t.runs.c.id == run_id).values(cancel_requested=True))
            return get_run(connection, run_id)

    def abandon(self, run_id: str, error: RunError) -> Run:
        """End a run that no worker has begun, and that none will. Raises `IllegalTransition` when one has."""
        with self._writing() as connection:
            run = get_run(connection, run_id, lock=True)
            if run.status is not RunStatus.PENDING:
                raise IllegalTransition(f"run {run_id} is {run.status}: only a pending run can be given up")
            end_run(connection, run, RunStatus.ERROR, error, self._now())
            return get_run(connection, run_id)

    # Writing as a worker

    def claim(self, run_id: str, worker: str) -> Lease | None:
        """Take a run that is pending, or whose worker has died. None when somebody else has it, or it has ended.

        An attempt begins; the one of the worker that died is lost.
        """
        c = t.runs.c
        with self._writing() as connection:
            moment = self._now()
            free = select(c.status, c.heartbeat_at).where(c.id == run_id, claimable(moment)).with_for_update()
            found = connection.execute(free).one_or_none()
            if found is None:
                return None
            end_attempt(connection, run_id, AttemptStatus.LOST, None, found.heartbeat_at or moment)
            values = {
                "status": RunStatus.RUNNING.value,
                "worker": worker,
                "heartbeat_at": moment,
                "started_at": func.coalesce(c.started_at, literal(moment, UtcDateTime)),
                "lease_token": c.lease_token + 1,
                "attempt": c.attempt + 1,
                "lost": c.lost + int(found.status == RunStatus.RUNNING.value),
            }
            statement = update(t.runs).where(c.id == run_id).values(values).returning(c.lease_token, c.attempt)
            taken = connection.execute(statement).one()
            begin_attempt(connection, run_id, taken.attempt, worker, moment)
            return Lease(run_id, taken.lease_token, worker)

    def heartbeat(self, lease: Lease) -> bool:
        """Say that the worker lives. True when the run has been asked to stop. Raises `StaleLease`."""
        with self._writing() as connection:
            return bool(change_held(connection, lease, {"heartbeat_at": self._now()}).cancel_requested)

    def next_attempt(self, lease: Lease, error: RunError) -> int:
        """End the attempt that runs, which failed for this reason, and begin another; its number. Raises `StaleLease`."""
        with self._writing() as connection:
            moment = self._now()
            number = int(change_held(connection, lease, {"attempt": t.runs.c.attempt + 1, "sandbox": None}).attempt)
            end_attempt(connection, lease.run_id, AttemptStatus.ERROR, error, moment)
            begin_attempt(connection, lease.run_id, number, lease.worker, moment)
            return number

    def set_sandbox(self, lease: Lease, handle: dict[str, Any] | None) -> None:
        """Note the live sandbox of the run, or that there is none. The attempt keeps where it ran. Raises `StaleLease`."""
        with self._writing() as connection:
            number = change_held(connection, lease, {"sandbox": handle}).attempt
            if handle is not None:
                _note_sandbox(connection, lease.run_id, number, handle)

    def record_usage(self, lease: Lease, number: int, usage: Sequence[ModelUsage], sandbox_seconds: float) -> None:
        """Note what an attempt of this lease has used altogether; call it once, when it ends. Raises `StaleLease`."""
        c = t.attempts.c
        with self._writing() as connection:
            change_held(connection, lease, {"heartbeat_at": self._now()})
            attempt = update(t.attempts).where(c.run_id == lease.run_id, c.number == number)
            connection.execute(attempt.values(sandbox_seconds=sandbox_seconds))
            if usage:
                connection.execute(insert(t.usage), [{"run_id": lease.run_id, **asdict(one)} for one in usage])

    def append(self, lease: Lease, new: Sequence[NewEvent]) -> None:
        """Add events, in this order. Raises `StaleLease`."""
        if new:
            with self._writing() as connection:
                last = change_held(connection, lease, {"last_seq": t.runs.c.last_seq + len(new)}).last_seq
                insert_events(connection, lease.run_id, last, new)

    def add_artifact(self, lease: Lease, artifact: Artifact) -> None:
        """Record an artifact whose content is in place; one of the same name is replaced. Raises `StaleLease`."""
        c = t.artifacts.c
        created = NewEvent("artifact.created", {"name": artifact.name, "size": artifact.size}, artifact.created_at)
        values = {column.name: getattr(artifact, column.name) for column in t.artifacts.columns}
        with self._writing() as connection:
            last = change_held(connection, lease, {"last_seq": t.runs.c.last_seq + 1}).last_seq
            connection.execute(delete(t.artifacts).where(c.run_id == lease.run_id, c.name == artifact.name))
            connection.execute(insert(t.artifacts).values(values))
            insert_events(connection, lease.run_id, last, [created])

    def finish(self, lease: Lease, status: RunStatus, error: RunError | None = None) -> Run:
        """End the run. Raises `StaleLease`, or `IllegalTransition` when a running run cannot become that."""
        with self._writing() as connection:
            moment = self._now()
            row = change_held(connection, lease, {"heartbeat_at": moment})
            end_run(connection, run_of(row), status, error, moment)
            return get_run(connection, lease.run_id)

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


def _values_of(new: NewRun, moment: datetime) -> dict[str, Any]:
    return {
        **vars(new),
        "labels": dict(new.labels),
        "provider": (new.spec.get("sandbox") or {}).get("provider", "local"),
        "status": RunStatus.PENDING.value,
        "created_at": moment,
        "attempt": 0,
        "cancel_requested": False,
        "lease_token": 0,
        "last_seq": 0,
    }


def _note_sandbox(connection: Connection, run_id: str, number: int, handle: dict[str, Any]) -> None:
    c = t.attempts.c
    values = {"provider": handle.get("provider"), "sandbox_id": handle.get("id")}
    connection.execute(update(t.attempts).where(c.run_id == run_id, c.number == number).values(values))
