"""What a controller asks the record: which runs wait for a nudge, whose a sandbox is, and whether it leads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, or_, select, update

from orchestrator.runs import tables as t
from orchestrator.runs.models import RunStatus
from orchestrator.runs.reading import Reader, lost

MAX_RUNS = 1000
"""Runs that one look returns; the next look finds the rest."""


@dataclass(frozen=True)
class WaitingRun:
    """A run that no worker has."""

    id: str
    claims: int
    """How often a worker has claimed it."""


@dataclass(frozen=True)
class Owner:
    """A run as far as its sandboxes depend on it."""

    ended: bool
    attempt: int
    sandbox_id: str | None
    """The sandbox that the record counts as the run's."""


class ControlRecord(Reader):
    """The record as a controller sees it. The one thing that it changes is who leads."""

    def lost_runs(self) -> list[WaitingRun]:
        """Runs whose worker has died, and which may be claimed again; oldest first."""
        return self._waiting(lost(self._now()))

    def pending_runs(self, *, older_than: float) -> list[WaitingRun]:
        """Runs that are pending and were submitted more than so many seconds ago; oldest first."""
        limit = self._now() - timedelta(seconds=older_than)
        return self._waiting((t.runs.c.status == RunStatus.PENDING.value) & (t.runs.c.created_at < limit))

    def _waiting(self, condition: ColumnElement[bool]) -> list[WaitingRun]:
        query = select(t.runs.c.id, t.runs.c.lease_token).where(condition).order_by(t.runs.c.created_at).limit(MAX_RUNS)
        with self._reading() as connection:
            return [WaitingRun(row.id, row.lease_token) for row in connection.execute(query)]

    def owners(self, run_ids: Collection[str]) -> dict[str, Owner]:
        """Those of these runs that there are."""
        c = t.runs.c
        query = select(c.id, c.status, c.attempt, c.sandbox).where(c.id.in_(run_ids))
        with self._reading() as connection:
            return {
                row.id: Owner(RunStatus(row.status).terminal, row.attempt, (row.sandbox or {}).get("id"))
                for row in connection.execute(query)
            }

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
