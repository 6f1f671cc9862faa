"""The record in a database: the only thing that changes a run.

A worker writes with the `Lease` that its claim gave it. Each such write names the lease's token, in the same transaction; when
another worker has claimed the run since, or the run has ended, it is refused with `StaleLease` and nothing is written.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, delete, func, insert, literal, or_, select, update
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import IllegalTransition, InfrastructureError, RunNotFound, StaleLease
from orchestrator.runs import tables as t
from orchestrator.runs.models import (
    TRANSITIONS,
    Artifact,
    Event,
    Lease,
    NewEvent,
    Run,
    RunError,
    RunStatus,
    WorkerInfo,
)
from orchestrator.runs.schema import WRITE

LEASE_TTL = 10.0
"""Seconds without a heartbeat after which another worker may claim the run."""
MAX_EVENTS = 1000
"""Events that one read returns."""


def new_run_id() -> str:
    """`run-` and 12 hexadecimal digits."""
    return "run-" + secrets.token_hex(6)


def now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(UTC)


class Store:
    """Runs, events, artifacts and workers. Safe to use from many threads and many processes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        """Let go of the database's connections."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with _translated(), self._engine.connect().execution_options(**WRITE) as connection, connection.begin():
            yield connection

    # Reading

    def get(self, run_id: str) -> Run:
        """The run with this very id. Raises `RunNotFound`."""
        with self._reading() as connection:
            return _get(connection, run_id)

    def find(self, prefix: str, limit: int = 2) -> list[Run]:
        """Runs whose id begins with `prefix`."""
        pattern = t.runs.c.id.startswith(prefix, autoescape=True)
        with self._reading() as connection:
            return [_run(row) for row in connection.execute(select(t.runs).where(pattern).limit(limit))]

    def recent(self, status: RunStatus | None = None, limit: int = 50) -> list[Run]:
        """The newest runs first, of this status or of all."""
        query = select(t.runs).order_by(t.runs.c.created_at.desc(), t.runs.c.id).limit(limit)
        if status:
            query = query.where(t.runs.c.status == status.value)
        with self._reading() as connection:
            return [_run(row) for row in connection.execute(query)]

    def events(self, run_id: str, after: int = 0, limit: int = MAX_EVENTS) -> list[Event]:
        """Events of a run with `seq > after`, in order, at most `limit`."""
        c = t.events.c
        query = select(t.events).where(c.run_id == run_id, c.seq > after).order_by(c.seq).limit(limit)
        with self._reading() as connection:
            return [Event(row.run_id, row.seq, row.type, row.at, row.data) for row in connection.execute(query)]

    def artifacts(self, run_id: str) -> list[Artifact]:
        """The artifacts of a run, by name."""
        query = select(t.artifacts).where(t.artifacts.c.run_id == run_id).order_by(t.artifacts.c.name)
        with self._reading() as connection:
            return [Artifact(**row._mapping) for row in connection.execute(query)]

    def unclaimed(self) -> list[str]:
        """Ids of runs that wait for a worker: pending, or left by a worker that died; oldest first."""
        with self._reading() as connection:
            return list(connection.execute(select(t.runs.c.id).where(_claimable()).order_by(t.runs.c.created_at)).scalars())

    # Writing as anybody

    def add(self, run_id: str, name: str, spec: dict[str, Any]) -> Run:
        """Record a new run, pending."""
        values = {
            "id": run_id,
            "name": name,
            "status": RunStatus.PENDING.value,
            "spec": spec,
            "created_at": now(),
            "attempt": 0,
            "cancel_requested": False,
            "lease_token": 0,
            "last_seq": 0,
        }
        with self._writing() as connection:
            connection.execute(insert(t.runs).values(values))
            return _get(connection, run_id)

    def request_cancel(self, run_id: str) -> Run:
        """Ask for a run to stop. One that no worker has begun is cancelled at once; one that has ended stays as it is."""
        with self._writing() as connection:
            run = _get(connection, run_id)
            if run.status in (RunStatus.PENDING, RunStatus.INTERRUPTED):
                _end(connection, run, RunStatus.CANCELLED, None)
            elif not run.status.terminal:
                connection.execute(update(t.runs).where(t.runs.c.id == run_id).values(cancel_requested=True))
            return _get(connection, run_id)

    def abandon(self, run_id: str, error: RunError) -> Run:
        """End a run that no worker has begun, and that none will. Raises `IllegalTransition` when one has."""
        with self._writing() as connection:
            run = _get(connection, run_id)
            if run.status is not RunStatus.PENDING:
                raise IllegalTransition(f"run {run_id} is {run.status}: only a pending run can be given up")
            _end(connection, run, RunStatus.ERROR, error)
            return _get(connection, run_id)

    # Writing as a worker

    def claim(self, run_id: str, worker: str) -> Lease | None:
        """Take a run that is pending, or whose worker has died. None when somebody else has it, or it has ended."""
        moment = now()
        values = {
            "status": RunStatus.RUNNING.value,
            "worker": worker,
            "heartbeat_at": moment,
            "started_at": func.coalesce(t.runs.c.started_at, literal(moment, t.UtcDateTime)),
            "lease_token": t.runs.c.lease_token + 1,
            "attempt": t.runs.c.attempt + 1,
        }
        with self._writing() as connection:
            condition = and_(t.runs.c.id == run_id, _claimable())
            statement = update(t.runs).where(condition).values(values).returning(t.runs.c.lease_token)
            token = connection.execute(statement).scalar()
            return None if token is None else Lease(run_id, token, worker)

    def heartbeat(self, lease: Lease) -> bool:
        """Say that the worker lives. True when the run has been asked to stop. Raises `StaleLease`."""
        with self._writing() as connection:
            return bool(_held(connection, lease, {"heartbeat_at": now()}).cancel_requested)

    def cancel_requested(self, run_id: str) -> bool:
        """Whether somebody has asked for the run to stop."""
        with self._reading() as connection:
            return bool(connection.execute(select(t.runs.c.cancel_requested).where(t.runs.c.id == run_id)).scalar())

    def next_attempt(self, lease: Lease) -> int:
        """Count one more attempt; its number. Raises `StaleLease`."""
        with self._writing() as connection:
            return int(_held(connection, lease, {"attempt": t.runs.c.attempt + 1}).attempt)

    def set_sandbox(self, lease: Lease, handle: dict[str, Any] | None) -> None:
        """Note the live sandbox of the run, or that there is none. Raises `StaleLease`."""
        with self._writing() as connection:
            _held(connection, lease, {"sandbox": handle})

    def append(self, lease: Lease, new: Sequence[NewEvent]) -> None:
        """Add events, in this order. Raises `StaleLease`."""
        if new:
            with self._writing() as connection:
                last = _held(connection, lease, {"last_seq": t.runs.c.last_seq + len(new)}).last_seq
                _insert_events(connection, lease.run_id, last, new)

    def add_artifact(self, lease: Lease, artifact: Artifact) -> None:
        """Record an artifact whose content is in place; one of the same name is replaced. Raises `StaleLease`."""
        c = t.artifacts.c
        created = NewEvent("artifact.created", {"name": artifact.name, "size": artifact.size}, artifact.created_at)
        values = {column.name: getattr(artifact, column.name) for column in t.artifacts.columns}
        with self._writing() as connection:
            last = _held(connection, lease, {"last_seq": t.runs.c.last_seq + 1}).last_seq
            connection.execute(delete(t.artifacts).where(c.run_id == lease.run_id, c.name == artifact.name))
            connection.execute(insert(t.artifacts).values(values))
            _insert_events(connection, lease.run_id, last, [created])

    def finish(self, lease: Lease, status: RunStatus, error: RunError | None = None) -> Run:
        """End the run. Raises `StaleLease`, or `IllegalTransition` when a running run cannot become that."""
        with self._writing() as connection:
            row = _held(connection, lease, {"heartbeat_at": now()})
            _end(connection, _run(row), status, error)
            return _get(connection, lease.run_id)

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

    def workers(self, ttl: float = LEASE_TTL) -> list[WorkerInfo]:
        """Workers that were heard of within `ttl` seconds."""
        query = select(t.workers).where(t.workers.c.heartbeat_at > now() - timedelta(seconds=ttl))
        with self._reading() as connection:
            return [WorkerInfo(**row._mapping) for row in connection.execute(query.order_by(t.workers.c.started_at))]


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as exc:
        raise InfrastructureError(f"the record cannot be read or written: {getattr(exc, 'orig', None) or exc}") from exc


def _claimable() -> Any:
    """Pending, or running with a lease that has run out."""
    expired = t.runs.c.heartbeat_at < now() - timedelta(seconds=LEASE_TTL)
    return or_(
        t.runs.c.status == RunStatus.PENDING.value,
        and_(t.runs.c.status == RunStatus.RUNNING.value, expired),
    )


def _held(connection: Connection, lease: Lease, values: dict[str, Any]) -> Row[Any]:
    """Change a run under its lease; the row as it is then. This is where a stale worker is refused."""
    c = t.runs.c
    condition = and_(c.id == lease.run_id, c.lease_token == lease.token, c.status == RunStatus.RUNNING.value)
    row = connection.execute(update(t.runs).where(condition).values(values).returning(t.runs)).one_or_none()
    if row is None:
        raise StaleLease(f"run {lease.run_id}: the lease {lease.token} of {lease.worker} is over")
    return row


def _end(connection: Connection, run: Run, status: RunStatus, error: RunError | None) -> None:
    if not status.terminal or status not in TRANSITIONS[run.status]:
        raise IllegalTransition(f"run {run.id} is {run.status}: it cannot end as {status}")
    moment = now()
    values = {
        "status": status.value,
        "finished_at": moment,
        "error_kind": error.kind if error else None,
        "error_message": error.message if error else None,
        "sandbox": None,
        "last_seq": t.runs.c.last_seq + 1,
    }
    statement = update(t.runs).where(t.runs.c.id == run.id).values(values).returning(t.runs.c.last_seq)
    data = {"status": status.value, "error": {"kind": error.kind, "message": error.message} if error else None}
    last = connection.execute(statement).scalar_one()
    _insert_events(connection, run.id, last, [NewEvent("run.finished", data, moment)])


def _insert_events(connection: Connection, run_id: str, last: int, new: Sequence[NewEvent]) -> None:
    """Insert events whose numbers end with `last`, which this transaction has reserved."""
    first = last - len(new) + 1
    rows = [{"run_id": run_id, "seq": first + i, "type": e.type, "at": e.at, "data": e.data} for i, e in enumerate(new)]
    connection.execute(insert(t.events), rows)


def _get(connection: Connection, run_id: str) -> Run:
    row = connection.execute(select(t.runs).where(t.runs.c.id == run_id)).one_or_none()
    if row is None:
        raise RunNotFound(f"there is no run '{run_id}'; `fanfold runs ls` lists them")
    return _run(row)


def _run(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        name=row.name,
        status=RunStatus(row.status),
        spec=row.spec,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=RunError(row.error_kind, row.error_message) if row.error_kind else None,
        attempt=row.attempt,
        cancel_requested=row.cancel_requested,
        worker=row.worker,
        heartbeat_at=row.heartbeat_at,
        sandbox=row.sandbox,
    )
