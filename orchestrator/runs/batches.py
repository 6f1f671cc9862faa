"""Batches in the record: many runs that were submitted in one call."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select

from orchestrator.errors import NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.changing import GOES_ON
from orchestrator.runs.database import Database, locking, newest, run_of
from orchestrator.runs.models import RunStatus
from orchestrator.runs.stopping import stop_runs

CANCELS_AT_ONCE = 500
"""Runs that one transaction cancels, so that others can write in between."""


@dataclass(frozen=True)
class NewBatch:
    """A batch as it is submitted."""

    id: str
    tenant: str
    name: str
    size: int
    """Its runs."""


@dataclass(frozen=True)
class Batch:
    """A batch as it was when it was read."""

    id: str
    tenant: str
    name: str
    created_at: datetime
    size: int
    """The runs that it was submitted with."""
    counts: Mapping[RunStatus, int]
    """Those of them that are in the record still, by status; a status that none has is left out."""


def new_batch_id() -> str:
    """`bat-` and 12 hexadecimal digits."""
    return "bat-" + secrets.token_hex(6)


def insert_batch(connection: Connection, new: NewBatch, moment: datetime) -> None:
    """Record a batch, in the transaction that records its runs."""
    connection.execute(insert(s.batches).values(**vars(new), created_at=moment))


class Batches(Database):
    """The batches of each tenant. Another tenant's is not there."""

    def get(self, batch_id: str, *, tenant: str) -> Batch:
        """The batch with this very id. Raises `NotFound`."""
        with self._reading() as connection:
            found = _read(connection, _own(tenant).where(s.batches.c.id == batch_id), tenant)
        if not found:
            raise NotFound(f"there is no batch '{batch_id}'; GET /v1/batches lists them")
        return found[0]

    def page(self, limit: int, before: tuple[datetime, str] | None = None, *, tenant: str) -> list[Batch]:
        """At most `limit` batches, the newest first; those that come after the one made then, with that id."""
        with self._reading() as connection:
            return _read(connection, newest(_own(tenant), s.batches, limit, before), tenant)

    def cancel_some(self, batch_id: str, *, tenant: str) -> tuple[int, list[str]]:
        """Ask some runs of a batch to stop that were not asked yet: how many, and the ids of those that have ended by it.

        Call it until there are none. One that has ended stays as it is.
        """
        c = t.runs.c
        asked = select(t.runs).where(c.batch_id == batch_id, c.tenant == tenant, GOES_ON, c.cancel_requested.is_(False))
        with self._writing() as connection:
            locked = connection.execute(locking(asked.order_by(c.id).limit(CANCELS_AT_ONCE))).all()
            return len(locked), stop_runs(connection, [run_of(row) for row in locked], self._now())


def _own(tenant: str) -> Select[Any]:
    return select(s.batches).where(s.batches.c.tenant == tenant)


def _read(connection: Connection, query: Select[Any], tenant: str) -> list[Batch]:
    """The batches that a query finds, with the counts of all of them by one more."""
    rows = connection.execute(query).all()
    c = t.runs.c
    own = (c.tenant == tenant, c.batch_id.in_([row.id for row in rows]))
    grouped = select(c.batch_id, c.status, func.count()).where(*own).group_by(c.batch_id, c.status)
    counts: dict[str, dict[RunStatus, int]] = {row.id: {} for row in rows}
    for batch_id, status, number in connection.execute(grouped) if rows else ():
        counts[batch_id][RunStatus(status)] = number
    return [_batch_of(row, counts[row.id]) for row in rows]


def _batch_of(row: Row[Any], counts: Mapping[RunStatus, int]) -> Batch:
    return Batch(row.id, row.tenant, row.name, row.created_at, row.size, counts)
