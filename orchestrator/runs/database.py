"""What reading and writing the record have in common: transactions, the clock, errors in words, and rows as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, Select, Table, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import RecordUnavailable, RunNotFound
from orchestrator.runs import tables as t
from orchestrator.runs.engine import writing
from orchestrator.runs.models import Attempt, AttemptStatus, Run, RunError, RunStatus


def now() -> datetime:
    """The moment, in UTC."""
    return datetime.now(UTC)


class Database:
    """An open database, and the clock by which leases run out."""

    def __init__(self, engine: Engine, clock: Callable[[], datetime] = now) -> None:
        self._engine = engine
        self._now = clock

    @property
    def engine(self) -> Engine:
        """The database."""
        return self._engine

    def close(self) -> None:
        """Let go of the database's connections."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with _translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with _translated(), writing(self._engine) as connection:
            yield connection


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as exc:
        raise RecordUnavailable(f"the record cannot be read or written: {getattr(exc, 'orig', None) or exc}") from exc


def newest(query: Select[Any], table: Table, limit: int, before: tuple[datetime, str] | None) -> Select[Any]:
    """At most `limit` rows of a table, the newest first; with `before`, those after the one made then, with that id."""
    c = table.c
    query = query.order_by(c.created_at.desc(), c.id.desc()).limit(limit)
    return query if before is None else query.where(tuple_(c.created_at, c.id) < tuple_(*before))


def get_run(connection: Connection, run_id: str, *, lock: bool = False) -> Run:
    """The run with this very id; with `lock`, nobody else changes it before the transaction ends. Raises `RunNotFound`."""
    query = select(t.runs).where(t.runs.c.id == run_id)
    row = connection.execute(locking(query) if lock else query).one_or_none()
    if row is None:
        raise RunNotFound(f"there is no run '{run_id}'; `fanfold runs ls` lists them")
    return run_of(row)


def locking(query: Select[Any], *, skip_locked: bool = False) -> Select[Any]:
    """Asks for runs that nobody else changes or locks before the transaction ends; or only for those that are free now.

    Rows that refer to them can still be written by others: a child that ends looks whether its parent is there, and whoever has
    locked the parent may wait for that child.
    """
    return query.with_for_update(key_share=True, skip_locked=skip_locked)


def insert_unless_there(connection: Connection, table: Any) -> Any:
    """An `INSERT` that does nothing when there is a row with this key: two that come at once make one."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table).on_conflict_do_nothing()


def run_of(row: Row[Any]) -> Run:
    """A row of `runs` as a value."""
    return Run(
        id=row.id,
        name=row.name,
        status=RunStatus(row.status),
        spec=row.spec,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=_error_of(row),
        attempt=row.attempt,
        cancel_requested=row.cancel_requested,
        worker=row.worker,
        heartbeat_at=row.heartbeat_at,
        sandbox=row.sandbox,
        sandbox_ready=row.sandbox_ready,
        provider=row.provider,
        tenant=row.tenant,
        labels=row.labels,
        priority=row.priority,
        thread_id=row.thread_id,
        batch_id=row.batch_id,
        lost=row.lost,
        interrupt=row.interrupt,
        decision=row.decision,
        decide_by=row.decide_by,
        waited=row.waited,
        traceparent=row.traceparent,
        epoch=row.epoch,
        outcome=row.outcome,
        snapshot=row.snapshot,
        parent_id=row.parent_id,
        root_id=row.root_id,
        depth=row.depth,
        fan_out=row.fan_out,
        place=row.place,
    )


def attempt_of(row: Row[Any]) -> Attempt:
    """A row of `attempts` as a value."""
    return Attempt(
        run_id=row.run_id,
        number=row.number,
        worker=row.worker,
        status=AttemptStatus(row.status),
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=_error_of(row),
        provider=row.provider,
        sandbox_id=row.sandbox_id,
        sandbox_seconds=row.sandbox_seconds,
    )


def _error_of(row: Row[Any]) -> RunError | None:
    return RunError(row.error_kind, row.error_message) if row.error_kind else None
