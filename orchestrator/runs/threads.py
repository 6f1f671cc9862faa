"""Threads in the record: conversations that several runs have in turn, and what happens when two want one at once."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, insert, not_, or_, select, update

from orchestrator.errors import BadInput, Conflict, NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.changing import GOES_ON
from orchestrator.runs.database import Database, locking, newest, run_of
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.stopping import stop_runs


class Multitask(StrEnum):
    """What a new run does when another one of its thread has not ended."""

    REJECT = "reject"
    """It is refused."""
    ENQUEUE = "enqueue"
    """It waits until those before it have ended."""
    INTERRUPT = "interrupt"
    """Those before it are cancelled; what they said stays in the conversation."""
    ROLLBACK = "rollback"
    """Those before it are cancelled, and leave the thread: nothing of them gets into the conversation."""


@dataclass(frozen=True)
class Thread:
    """A conversation."""

    id: str
    tenant: str
    created_at: datetime
    metadata: dict[str, Any]
    """What its owner noted about it."""


def new_thread_id() -> str:
    """`thr-` and 12 hexadecimal digits."""
    return "thr-" + secrets.token_hex(6)


class Threads(Database):
    """The threads of each tenant. Another tenant's is not there."""

    def add(self, thread_id: str, metadata: dict[str, Any], *, tenant: str) -> Thread:
        """Record a new thread, in which nothing has been said."""
        thread = Thread(thread_id, tenant, self._now(), metadata)
        values = {"id": thread_id, "tenant": tenant, "created_at": thread.created_at, "meta": metadata}
        with self._writing() as connection:
            connection.execute(insert(s.threads).values(values))
        return thread

    def get(self, thread_id: str, *, tenant: str) -> Thread:
        """The thread with this very id. Raises `NotFound`."""
        with self._reading() as connection:
            return _thread_of(_only(connection, _one(thread_id, tenant), thread_id))

    def page(self, limit: int, before: tuple[datetime, str] | None = None, *, tenant: str) -> list[Thread]:
        """At most `limit` threads, the newest first; those that come after the one made then, with that id."""
        query = newest(select(s.threads).where(s.threads.c.tenant == tenant), s.threads, limit, before)
        with self._reading() as connection:
            return [_thread_of(row) for row in connection.execute(query)]

    def describe(self, thread_id: str, metadata: dict[str, Any], *, tenant: str) -> Thread:
        """Replace what is noted about a thread. Raises `NotFound`."""
        with self._writing() as connection:
            c = s.threads.c
            changed = update(s.threads).where(c.id == thread_id, c.tenant == tenant).values(meta=metadata)
            connection.execute(changed)
            return _thread_of(_only(connection, _one(thread_id, tenant), thread_id))

    def remove(self, thread_id: str, *, tenant: str) -> None:
        """Delete a thread and what was said in it; its runs stay. Raises `NotFound`, or `Conflict` while one goes on."""
        with self._writing() as connection:
            _only(connection, _one(thread_id, tenant).with_for_update(), thread_id)
            if active := connection.execute(_active(thread_id, tenant).limit(1)).one_or_none():
                raise Conflict(
                    f"thread {thread_id} cannot be deleted while run {active.id} of it is {active.status}: cancel the run first"
                )
            connection.execute(delete(s.threads).where(s.threads.c.id == thread_id, s.threads.c.tenant == tenant))


def join_thread(connection: Connection, new: NewRun, multitask: Multitask, moment: datetime) -> list[str]:
    """Let a run into its thread, if it has one; the ids of runs of the thread that ended by it, which no worker had.

    Call it before the run is inserted, in the same transaction: the thread is locked until its end, so that of two runs that
    come at once the second one sees the first. Others of the thread that a worker has are asked to stop.

    Raises `NotFound` when the tenant has no such thread, `BadInput` when the run has no agent to talk, and `Conflict` when
    another run goes on and the strategy is to reject. Then nothing was changed.
    """
    if new.thread_id is None:
        return []
    check_talks(new.name, agent=bool(new.spec.get("agent")))
    # Whoever saves what was said refers to the thread's row, which this lock allows.
    _only(connection, _one(new.thread_id, new.tenant).with_for_update(key_share=True), new.thread_id)
    if multitask is Multitask.ENQUEUE:
        return []
    active = connection.execute(locking(_active(new.thread_id, new.tenant))).all()
    if active and multitask is Multitask.REJECT:
        raise Conflict(
            f"thread {new.thread_id}: run {active[0].id} of it is {active[0].status}: wait for its end,"
            " or give `multitask_strategy` as enqueue, interrupt or rollback"
        )
    if active and multitask is Multitask.ROLLBACK:
        ids = [row.id for row in active]
        connection.execute(update(t.runs).where(t.runs.c.id.in_(ids)).values(thread_id=None))
    return stop_runs(connection, [run_of(row) for row in active], moment)


def check_talks(name: str, *, agent: bool) -> None:
    """Raises `BadInput` for a run that cannot be of a thread, because it has no agent."""
    if not agent:
        raise BadInput(f"thread_id: a thread is a conversation, and '{name}' is a command: leave `thread_id` out")


def its_turn() -> ColumnElement[bool]:
    """Whether a run that waits may be sent as far as its thread goes: it has none, or none before it goes on.

    A run that was sent already counts as before it, whatever the clocks say that recorded the two.
    """
    c, other = t.runs.c, t.runs.alias("other")
    sooner = or_(
        other.c.created_at < c.created_at,
        and_(other.c.created_at == c.created_at, other.c.id < c.id),
        other.c.dispatched_at.is_not(None),
    )
    open_ones = other.c.status.in_([status.value for status in RunStatus if not status.terminal])
    others = select(other.c.id).where(other.c.thread_id == c.thread_id, other.c.id != c.id, open_ones, sooner)
    return or_(c.thread_id.is_(None), not_(others.exists()))


def _one(thread_id: str, tenant: str) -> Select[Any]:
    return select(s.threads).where(s.threads.c.id == thread_id, s.threads.c.tenant == tenant)


def _active(thread_id: str, tenant: str) -> Select[Any]:
    """The runs of a thread that have not ended, in an order that is the same for everybody who locks them."""
    own = (t.runs.c.thread_id == thread_id, t.runs.c.tenant == tenant)
    return select(t.runs).where(*own, GOES_ON).order_by(t.runs.c.id)


def _only(connection: Connection, query: Select[Any], thread_id: str) -> Row[Any]:
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFound(f"there is no thread '{thread_id}'; GET /v1/threads lists them")
    return row


def _thread_of(row: Row[Any]) -> Thread:
    return Thread(row.id, row.tenant, row.created_at, row.meta)
