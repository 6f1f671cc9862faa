"""The queue in the record: which tenants wait, and with which runs.

Every question here walks along the index of the queue and stops: how many runs wait makes no difference to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Double, Row, column, func, or_, select, text

from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.threads import its_turn

FIRST = 10
"""Runs of a tenant that are looked at before any more are read: most of the time one of them can be sent."""
HEAD = 200
"""Runs beyond these that each look sees when none of them can."""
DEEP = 500
"""Runs behind all these that one look sees; the next look goes on where it ended."""

_STARTS = ("id", "provider", "choice", "labels", "ready_at", "priority", "created_at")
_TURN = its_turn().label("turn")
_HOUSED = t.runs.c.sandbox.is_not(None).label("housed")


@dataclass(frozen=True, order=True)
class Position:
    """A place in a tenant's queue."""

    falling: int
    """The priority, negative: the highest comes first."""
    created_at: datetime
    id: str


@dataclass(frozen=True)
class WaitingTenant:
    """A tenant that has runs in the queue."""

    row: Row[Any]
    served: float
    """Its virtual time: of those that wait, the tenant with the least comes next."""


def waiting_tenants(connection: Connection) -> list[WaitingTenant]:
    """The tenants with runs in the queue.

    Who had nothing to send, or might not, for a while has saved nothing up: it comes in where the last one was served.
    """
    # SQLite has to be told the index: that of all statuses looks as good to it, and is not.
    index = "INDEXED BY ix_runs_queue" if connection.dialect.name == "sqlite" else ""
    query = text(_TENANTS.format(index=index)).columns(*s.tenants.c, column("begun", Double))
    return [WaitingTenant(row, max(row.served, row.begun or 0.0)) for row in connection.execute(query)]


_TENANTS = f"""
    WITH RECURSIVE waiting(tenant) AS (
        SELECT (SELECT tenant FROM runs {{index}} WHERE {t.WAITING.text} ORDER BY tenant LIMIT 1)
        UNION ALL
        SELECT (SELECT runs.tenant FROM runs {{index}} WHERE {t.WAITING.text} AND runs.tenant > waiting.tenant
                ORDER BY runs.tenant LIMIT 1)
        FROM waiting WHERE waiting.tenant IS NOT NULL
    )
    SELECT {", ".join(f"tenants.{one.name}" for one in s.tenants.c)},
        (SELECT max(served - 1.0 / nullif(weight, 0)) FROM tenants) AS begun
    FROM waiting JOIN tenants ON tenants.id = waiting.tenant
"""  # noqa: S608 - made of this module's own words


def anything_waits(connection: Connection) -> bool:
    """Whether there is a run in the queue, whatever holds it there."""
    return connection.execute(select(t.runs.c.id).where(t.WAITING).limit(1)).first() is not None


def count_waiting(connection: Connection, tenant: str, most: int) -> int:
    """How many runs of a tenant are in the queue; counted no further than to `most`."""
    c = t.runs.c
    some = select(c.priority).where(c.tenant == tenant, t.WAITING).order_by(c.priority).limit(most).subquery()
    return connection.execute(select(func.count()).select_from(some)).scalar_one()


class Walk:
    """Goes along the queues of tenants, one look after the other. Its memory is a hint: losing it loses nothing."""

    def __init__(self) -> None:
        self._deep: dict[str, Position] = {}

    def along(self, connection: Connection, tenant: str) -> Iterator[Row[Any]]:
        """A tenant's runs that wait, in order, as many as one look sees; `turn` says whether its thread lets a run begin."""
        position = None
        for size in (FIRST, HEAD):
            rows = _after(connection, tenant, position, size)
            yield from rows
            if len(rows) < size:
                self._deep.pop(tenant, None)
                return
            position = _position(rows[-1])
        assert position is not None
        rows = _after(connection, tenant, max(position, self._deep.get(tenant, position)), DEEP)
        yield from rows
        if len(rows) < DEEP:
            self._deep.pop(tenant, None)
        else:
            self._deep[tenant] = _position(rows[-1])


def _position(row: Row[Any]) -> Position:
    return Position(-row.priority, row.created_at, row.id)


def _after(connection: Connection, tenant: str, position: Position | None, size: int) -> list[Row[Any]]:
    """At most `size` runs after a position: those of one priority after the other, as the index has them."""
    rows: list[Row[Any]] = []
    priority = -position.falling if position else _below(connection, tenant, None)
    while priority is not None and len(rows) < size:
        rows += _of_priority(connection, tenant, priority, position, size - len(rows))
        position = None
        if len(rows) < size:
            priority = _below(connection, tenant, priority)
    return rows


def _below(connection: Connection, tenant: str, priority: int | None) -> int | None:
    """The highest priority in a tenant's queue, or the highest below another one."""
    c = t.runs.c
    query = select(c.priority).where(c.tenant == tenant, t.WAITING).order_by(c.priority.desc()).limit(1)
    return connection.execute(query if priority is None else query.where(c.priority < priority)).scalar_one_or_none()


def _of_priority(
    connection: Connection, tenant: str, priority: int, position: Position | None, size: int
) -> list[Row[Any]]:
    c = t.runs.c
    columns = (*(c[name] for name in _STARTS), _TURN, _HOUSED)
    query = select(*columns).where(c.tenant == tenant, c.priority == priority, t.WAITING)
    if position is not None:
        same = or_(c.created_at > position.created_at, c.id > position.id)
        query = query.where(c.created_at >= position.created_at, same)
    return list(connection.execute(query.order_by(c.created_at, c.id).limit(size)))
