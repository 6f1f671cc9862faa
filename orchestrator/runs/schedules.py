"""Schedules in the record: what each tenant wants to have run again and again, and when it is due next."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from orchestrator.errors import Conflict, NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.database import Database, newest
from orchestrator.runs.models import RunStatus

MAX_SCHEDULES = 1000
"""Schedules of one tenant."""
MAX_DUE = 100
"""Schedules that one look finds due; the next look finds the rest."""


class Overlap(StrEnum):
    """What happens when a schedule is due while its last run goes on."""

    SKIP = "skip"
    """This time is left out."""
    ALLOW = "allow"
    """Another run begins beside it."""


@dataclass(frozen=True)
class Schedule:
    """Something that is run again and again."""

    id: str
    tenant: str
    name: str
    cron: str
    timezone: str
    order: dict[str, Any]
    """What is submitted each time, as `POST /v1/runs` takes it."""
    overlap: Overlap
    enabled: bool
    created_at: datetime
    next_at: datetime | None
    """When it is due; None while it is disabled."""
    last_at: datetime | None = None
    """When it last came."""
    last_run_id: str | None = None
    last_error: str | None = None
    """Why there was no run the last time; None when there was one."""


def new_schedule_id() -> str:
    """`sch-` and 12 hexadecimal digits."""
    return "sch-" + secrets.token_hex(6)


class Schedules(Database):
    """The schedules of each tenant. Another tenant's is not there."""

    def add(self, schedule: Schedule) -> None:
        """Record a new schedule. Raises `Conflict` when its tenant has too many."""
        c = s.schedules.c
        with self._writing() as connection:
            count = select(func.count()).select_from(s.schedules).where(c.tenant == schedule.tenant)
            if connection.execute(count).scalar_one() >= MAX_SCHEDULES:
                raise Conflict(f"there are {MAX_SCHEDULES} schedules already, and no tenant may have more: delete one")
            connection.execute(insert(s.schedules).values({**vars(schedule), "overlap": schedule.overlap.value}))

    def get(self, schedule_id: str, *, tenant: str) -> Schedule:
        """The schedule with this very id. Raises `NotFound`."""
        with self._reading() as connection:
            return _get(connection, schedule_id, tenant)

    def page(self, limit: int, before: tuple[datetime, str] | None = None, *, tenant: str) -> list[Schedule]:
        """At most `limit` schedules, the newest first; those that come after the one made then, with that id."""
        query = newest(select(s.schedules).where(s.schedules.c.tenant == tenant), s.schedules, limit, before)
        with self._reading() as connection:
            return [_schedule_of(row) for row in connection.execute(query)]

    def change(self, schedule_id: str, values: dict[str, Any], *, tenant: str) -> Schedule:
        """Replace fields of a schedule. Raises `NotFound`."""
        c = s.schedules.c
        with self._writing() as connection:
            if values:
                connection.execute(update(s.schedules).where(c.id == schedule_id, c.tenant == tenant).values(values))
            return _get(connection, schedule_id, tenant)

    def remove(self, schedule_id: str, *, tenant: str) -> None:
        """Delete a schedule; its runs stay. Raises `NotFound`."""
        c = s.schedules.c
        with self._writing() as connection:
            _get(connection, schedule_id, tenant)
            connection.execute(delete(s.schedules).where(c.id == schedule_id, c.tenant == tenant))

    # As a controller sees them, of all tenants

    def due(self) -> list[Schedule]:
        """Schedules whose time has come, the longest due first."""
        c = s.schedules.c
        query = select(s.schedules).where(c.next_at <= self._now(), c.enabled).order_by(c.next_at, c.id).limit(MAX_DUE)
        with self._reading() as connection:
            return [_schedule_of(row) for row in connection.execute(query)]

    def came(self, schedule: Schedule, next_at: datetime | None, *, run_id: str | None, error: str | None) -> bool:
        """Note what became of a schedule that was due, and when it is due next. `run_id` is None when nothing was run.

        False, and nothing is noted, when somebody else has noted it, or has changed when it is due.
        """
        c = s.schedules.c
        values = {"next_at": next_at, "last_at": self._now(), "last_error": error}
        if run_id is not None:
            values["last_run_id"] = run_id
        mine = update(s.schedules).where(c.id == schedule.id, c.next_at == schedule.next_at)
        with self._writing() as connection:
            return connection.execute(mine.values(values)).rowcount == 1

    def goes_on(self, run_id: str, *, tenant: str) -> bool:
        """Whether the tenant has this run, and it has not ended."""
        query = select(t.runs.c.status).where(t.runs.c.id == run_id, t.runs.c.tenant == tenant)
        with self._reading() as connection:
            status = connection.execute(query).scalar()
        return status is not None and not RunStatus(status).terminal


def _get(connection: Connection, schedule_id: str, tenant: str) -> Schedule:
    c = s.schedules.c
    row = connection.execute(select(s.schedules).where(c.id == schedule_id, c.tenant == tenant)).one_or_none()
    if row is None:
        raise NotFound(f"there is no schedule '{schedule_id}'; `fanfold schedules ls` lists them")
    return _schedule_of(row)


def _schedule_of(row: Row[Any]) -> Schedule:
    return Schedule(**{**row._mapping, "overlap": Overlap(row.overlap)})
