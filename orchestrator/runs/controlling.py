"""What a controller asks the record: which runs wait for a nudge, whose a sandbox is, and whether it leads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, or_, select, update

from orchestrator.runs import tables as t
from orchestrator.runs.changing import end_runs
from orchestrator.runs.database import locking, run_of
from orchestrator.runs.keeping import Keeping
from orchestrator.runs.models import RunError, RunStatus
from orchestrator.runs.reading import Reader, lost

MAX_EXPIRED = 100
"""Runs that one look ends for want of a decision."""
MAX_RUNS = 1000
"""Runs that one look returns; the next look finds the rest."""


@dataclass(frozen=True)
class WaitingRun:
    """A run that no worker has."""

    id: str
    claims: int
    """How often a worker has claimed it."""


class ControlRecord(Reader, Keeping):
    """The record as a controller sees it. It changes who leads, and ends runs that nobody decides about."""

    def lost_runs(self) -> list[WaitingRun]:
        """Runs whose worker has died, and which may be claimed again; oldest first. Children come with their parent."""
        return self._waiting(lost(self._now()))

    def pending_runs(self, *, older_than: float) -> list[WaitingRun]:
        """Runs that are pending and were sent to a worker more than so many seconds ago; oldest first."""
        limit = self._now() - timedelta(seconds=older_than)
        return self._waiting((t.runs.c.status == RunStatus.PENDING.value) & (t.runs.c.dispatched_at < limit))

    def _waiting(self, condition: ColumnElement[bool]) -> list[WaitingRun]:
        c = t.runs.c
        query = select(c.id, c.lease_token).where(condition, c.parent_id.is_(None)).order_by(c.created_at).limit(MAX_RUNS)
        with self._reading() as connection:
            return [WaitingRun(row.id, row.lease_token) for row in connection.execute(query)]

    def expire_decisions(self) -> list[str]:
        """End runs whose question nobody has answered in time, as `timeout`; their ids."""
        c, moment = t.runs.c, self._now()
        late = (c.status == RunStatus.INTERRUPTED.value, c.decide_by < moment)
        with self._reading() as connection:  # most of the time there is none, and then nobody is held up
            if connection.execute(select(c.id).where(*late).limit(1)).first() is None:
                return []
        with self._writing() as connection:
            rows = connection.execute(locking(select(t.runs).where(*late).limit(MAX_EXPIRED))).all()
            error = RunError("task", "nobody decided in time about what the agent wanted to do (agent.decide_within)")
            end_runs(connection, [run_of(row) for row in rows], RunStatus.TIMEOUT, error, moment)
            return [row.id for row in rows]

    def lead(self, holder: str, ttl: float) -> bool:
        """Lead for `ttl` seconds from now, or go on leading. False while another one does."""
        c, moment = t.installation.c, self._now()
        free = or_(c.leader == holder, c.leads_until.is_(None), c.leads_until < moment)
        values = {"leader": holder, "leads_until": moment + timedelta(seconds=ttl)}
        with self._reading() as connection:  # who waits for its turn must not queue up with those who write
            if connection.execute(select(c.id).where(free)).first() is None:
                return False
        with self._writing() as connection:
            return connection.execute(update(t.installation).where(free).values(values)).rowcount == 1

    def resign(self, holder: str) -> None:
        """Lead no more; another one may at once. Nothing happens when another one does already."""
        c = t.installation.c
        with self._writing() as connection:
            connection.execute(update(t.installation).where(c.leader == holder).values(leader=None, leads_until=None))
