"""What was said in a thread, as its runs left it: the next run of the thread begins with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select

from orchestrator.runs import service_tables as t
from orchestrator.runs.database import Database
from orchestrator.runs.held import hold
from orchestrator.runs.models import Lease
from orchestrator.runs.tables import runs

KEPT = 2
"""Conversations that a thread keeps: the one that holds, and the one before."""


@dataclass(frozen=True)
class Conversation:
    """What was said in a thread, whole, when one of its runs was done."""

    thread_id: str
    number: int
    """Grows with each run of the thread that saves one; from 1."""
    run_id: str
    at: datetime
    kind: str
    """What `data` is: `json` is UTF-8 JSON, `{"messages": [...]}`, as langchain writes messages down."""
    data: bytes


class Conversations(Database):
    """Conversations of threads. A thread that is deleted takes them along."""

    def latest(self, thread_id: str, *, tenant: str | None = None) -> Conversation | None:
        """The conversation that holds; None before the first. With `tenant`, only if the thread is that one's.

        A worker may leave the tenant out: it reads the thread of its own run.
        """
        c = t.conversations.c
        query = select(t.conversations).where(c.thread_id == thread_id).order_by(c.number.desc()).limit(1)
        if tenant is not None:
            query = query.join(t.threads, t.threads.c.id == c.thread_id).where(t.threads.c.tenant == tenant)
        with self._reading() as connection:
            row = connection.execute(query).one_or_none()
        return Conversation(**row._mapping) if row is not None else None

    def save(self, lease: Lease, data: bytes, kind: str = "json") -> int | None:
        """Make `data` the conversation that holds in the thread of the run; its number.

        None, and nothing is saved, when the run has no thread, or has none any more. Raises `StaleLease`.
        """
        with self._writing() as connection:
            # Whoever submits to the thread locks it before its runs: the other way round, the two could wait for each other.
            thread_id = _lock_thread(connection, lease.run_id)
            if hold(connection, lease).thread_id != thread_id or thread_id is None:
                return None
            c = t.conversations.c
            last = connection.execute(select(func.max(c.number)).where(c.thread_id == thread_id)).scalar_one()
            number = (last or 0) + 1
            values = {"thread_id": thread_id, "number": number, "run_id": lease.run_id, "kind": kind, "data": data}
            connection.execute(insert(t.conversations).values(**values, at=self._now()))
            connection.execute(delete(t.conversations).where(c.thread_id == thread_id, c.number <= number - KEPT))
            return number


def _lock_thread(connection: Connection, run_id: str) -> str | None:
    """The thread of a run, which nobody else writes to or deletes before the transaction ends; None when it has none."""
    found = select(runs.c.thread_id).where(runs.c.id == run_id).scalar_subquery()
    query = select(t.threads.c.id).where(t.threads.c.id == found).with_for_update(key_share=True)
    return connection.execute(query).scalar_one_or_none()
