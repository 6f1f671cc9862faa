"""Reading the record: what runs there are, and what has happened in them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, case, literal, not_, or_, select

from orchestrator.errors import RunNotFound
from orchestrator.runs import tables as t
from orchestrator.runs.columns import UtcDateTime
from orchestrator.runs.database import Database, attempt_of, get_run, run_of
from orchestrator.runs.files import FROZEN_NAMES, RESERVED
from orchestrator.runs.leases import MAX_LOST, patience
from orchestrator.runs.models import DEFAULT_TENANT, Artifact, Attempt, Event, Head, ModelUsage, Run, RunStatus, WorkerInfo

WORKER_TTL = 10.0
"""Seconds without a sign of life after which nobody counts on a worker."""
MAX_EVENTS = 1000
"""Events that one read returns."""


class Reader(Database):
    """Changes nothing. Each call is one transaction."""

    def get(self, run_id: str) -> Run:
        """The run with this very id. Raises `RunNotFound`."""
        with self._reading() as connection:
            return get_run(connection, run_id)

    def find(self, prefix: str, limit: int = 2, *, tenant: str) -> list[Run]:
        """Runs of a tenant whose id begins with `prefix`; only the one with this very id, when there is one."""
        if not prefix.isprintable():
            return []
        c = t.runs.c.id
        own = select(t.runs).where(t.runs.c.tenant == tenant).limit(limit)
        with self._reading() as connection:
            # Databases look for a beginning from row to row, for a whole id in an index.
            for condition in (c == prefix, c.startswith(prefix, autoescape=True)):
                if rows := connection.execute(own.where(condition)).all():
                    return [run_of(row) for row in rows]
        return []

    def recent(
        self,
        status: RunStatus | None = None,
        limit: int = 50,
        *,
        with_children: bool = False,
        tenant: str = DEFAULT_TENANT,
    ) -> list[Run]:
        """A tenant's newest runs first, of this status or of all. Children are left out, unless they are asked for."""
        c = t.runs.c
        query = select(t.runs).where(c.tenant == tenant).order_by(c.created_at.desc(), c.id.desc()).limit(limit)
        if status:
            query = query.where(c.status == status.value)
        if not with_children:
            query = query.where(c.parent_id.is_(None))
        with self._reading() as connection:
            return [run_of(row) for row in connection.execute(query)]

    def events(self, run_id: str, after: int = 0, limit: int = MAX_EVENTS) -> list[Event]:
        """Events of a run with `seq > after`, in order, at most `limit`."""
        with self._reading() as connection:
            return _events(connection, run_id, after, limit)

    def tail(self, run_id: str, after: int, limit: int, *, tenant: str) -> tuple[list[Event], bool]:
        """As `events` for a tenant's run with this very id; and whether none comes after them. Raises `RunNotFound`.

        Whoever follows a run asks again and again, most often for nothing: that takes one short question.
        """
        c = t.runs.c
        with self._reading() as connection:
            query = select(c.status, c.last_seq).where(c.id == run_id, c.tenant == tenant)
            run = connection.execute(query).one_or_none()
            if run is None:
                raise RunNotFound(f"there is no run '{run_id}'; `fanfold runs ls` lists them")
            page = _events(connection, run_id, after, limit) if run.last_seq > after else []
        return page, page[-1].type == "run.finished" if page else RunStatus(run.status).terminal

    def heads(self, run_ids: Collection[str]) -> dict[str, Head]:
        """How far each of these runs is, whoever's they are; those that are gone are left out."""
        c = t.runs.c
        query = select(c.id, c.last_seq, c.status).where(c.id.in_(run_ids))
        with self._reading() as connection:
            return {row.id: Head(row.last_seq, RunStatus(row.status).terminal) for row in connection.execute(query)}

    def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts at a run, in order."""
        query = select(t.attempts).where(t.attempts.c.run_id == run_id).order_by(t.attempts.c.number)
        with self._reading() as connection:
            return [attempt_of(row) for row in connection.execute(query)]

    def usage(self, run_id: str) -> list[ModelUsage]:
        """What a run's attempts that have ended used of models, by attempt, agent and model."""
        query = select(*[column for column in t.usage.c if column.name != "run_id"]).where(t.usage.c.run_id == run_id)
        with self._reading() as connection:
            found = [ModelUsage(**row._mapping) for row in connection.execute(query)]
        return sorted(found, key=lambda one: (one.attempt, one.agent, one.model))

    def artifacts(self, run_id: str) -> list[Artifact]:
        """What a run has left, by name."""
        c = t.artifacts.c
        query = select(t.artifacts).where(c.run_id == run_id, not_(c.name.startswith(RESERVED, autoescape=True)))
        with self._reading() as connection:
            found = [Artifact(**row._mapping) for row in connection.execute(query)]
        return sorted(found, key=lambda artifact: artifact.name)  # databases sort by the rules of their language

    def frozen(self, run_id: str) -> list[Artifact]:
        """What was frozen for a run, as far as that is in the place of the artifacts."""
        query = select(t.artifacts).where(t.artifacts.c.run_id == run_id, t.artifacts.c.name.in_(FROZEN_NAMES))
        with self._reading() as connection:
            return [Artifact(**row._mapping) for row in connection.execute(query)]

    def ended(self, run_ids: Collection[str]) -> list[str]:
        """Those of these runs that have ended."""
        c, over = t.runs.c, [status.value for status in RunStatus if status.terminal]
        with self._reading() as connection:
            return list(connection.execute(select(c.id).where(c.id.in_(run_ids), c.status.in_(over))).scalars())

    def unclaimed(self) -> list[str]:
        """Ids of runs that wait for a worker: pending, or left by a worker that died; oldest first."""
        query = select(t.runs.c.id).where(claimable(self._now())).order_by(t.runs.c.created_at)
        with self._reading() as connection:
            return list(connection.execute(query).scalars())

    def installation(self) -> str:
        """The id of this record, which labels the sandboxes of its runs: made with the database, and never changed."""
        with self._reading() as connection:
            return str(connection.execute(select(t.installation.c.id)).scalar_one())

    def cancel_requested(self, run_id: str) -> bool:
        """Whether somebody has asked for the run to stop."""
        with self._reading() as connection:
            return bool(connection.execute(select(t.runs.c.cancel_requested).where(t.runs.c.id == run_id)).scalar())

    def cancels_requested(self, run_ids: Collection[str]) -> set[str]:
        """Those of these runs that somebody has asked to stop."""
        c = t.runs.c
        with self._reading() as connection:
            return set(connection.execute(select(c.id).where(c.id.in_(run_ids), c.cancel_requested)).scalars())

    def workers(self, ttl: float = WORKER_TTL) -> list[WorkerInfo]:
        """Workers that were heard of within `ttl` seconds."""
        query = select(t.workers).where(t.workers.c.heartbeat_at > self._now() - timedelta(seconds=ttl))
        with self._reading() as connection:
            return [WorkerInfo(**row._mapping) for row in connection.execute(query.order_by(t.workers.c.started_at))]


def claimable(moment: datetime) -> ColumnElement[bool]:
    """Pending and sent to a worker, or left by its worker. A child is neither: whoever has its parent claims it."""
    c = t.runs.c
    sent = and_(c.status == RunStatus.PENDING.value, c.dispatched_at.is_not(None))
    return and_(c.parent_id.is_(None), or_(sent, lost(moment)))


def lost(moment: datetime) -> ColumnElement[bool]:
    """Running, and silent at this moment for longer than `patience` has with a run that lost so many workers before."""
    since = {n: literal(moment - timedelta(seconds=patience(n)), UtcDateTime) for n in range(MAX_LOST + 1)}
    limit = case(since, value=t.runs.c.lost, else_=since[MAX_LOST])
    return and_(t.runs.c.status == RunStatus.RUNNING.value, t.runs.c.heartbeat_at < limit)


def _events(connection: Connection, run_id: str, after: int, limit: int) -> list[Event]:
    c = t.events.c
    query = select(t.events).where(c.run_id == run_id, c.seq > after).order_by(c.seq).limit(limit)
    return [Event(row.run_id, row.seq, row.type, row.at, row.data) for row in connection.execute(query)]
