"""Granting the children of a fan-out to the worker that has their parent, as far as the quotas have room.

A child takes no slot of a queue: it is executed where its parent is. It counts for every cap while it runs. The parent stands
still meanwhile and lends its place, so that one of its children may always run: a fan-out moves on, however little room there
is, and so do those below it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, or_, select

from orchestrator.policy import Placed, Policy
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.adding import with_defaults
from orchestrator.runs.claiming import take
from orchestrator.runs.database import Database, locking, now
from orchestrator.runs.models import Lease, RunStatus
from orchestrator.runs.reading import lost
from orchestrator.runs.room import Room, decides
from orchestrator.runs.tenants import tenant_of


class Granting(Database):
    """Who may execute which child now. Safe to use from many threads and many processes."""

    def __init__(self, engine: Engine, policy: Policy, clock: Callable[[], datetime] = now) -> None:
        super().__init__(engine, clock)
        self._policy = policy

    def grant(self, child_id: str, worker: str) -> Lease | None:
        """Claim a child that is pending, or whose worker has died, for the worker that has its parent.

        None when there is no room for it now: ask again, after one of its siblings has ended or a little later. None as well
        when it is no child of a run of this worker, somebody else has it, it waits for a person, or it has ended, which its
        status tells.
        """
        with self._writing() as connection:
            decides(connection, wait=True)
            moment = self._now()
            child = connection.execute(locking(_free(child_id, worker, moment))).one_or_none()
            if child is None:
                return None
            if child.status == RunStatus.RUNNING.value:  # it counts already
                return take(connection, child, worker, moment)
            provider = _provider_of(connection, child)
            if _stands_still(connection, child) or self._has_room(connection, child, provider):
                return take(connection, child, worker, moment, dispatched_at=moment, provider=provider)
            return None

    def _has_room(self, connection: Connection, child: Row[Any], provider: str) -> bool:
        room = Room.of_caps(connection, self._policy)
        if not room.within_caps(Placed(provider, child.labels, child.sandbox is not None)):
            return False
        row = connection.execute(select(s.tenants).where(s.tenants.c.id == child.tenant)).one()
        most = with_defaults(tenant_of(row).limits, self._policy.tenants).max_running
        return most is None or room.tenants[child.tenant] < most


def _free(child_id: str, worker: str, moment: datetime) -> Select[Any]:
    """Asks for a child that nobody has, of a run that the worker has."""
    c, parent = t.runs.c, t.runs.alias("parent")
    held = (parent.c.id == c.parent_id, parent.c.status == RunStatus.RUNNING.value, parent.c.worker == worker)
    free: ColumnElement[bool] = or_(c.status == RunStatus.PENDING.value, lost(moment))
    return select(t.runs).where(c.id == child_id, select(parent.c.id).where(*held).exists(), free)


def _stands_still(connection: Connection, child: Row[Any]) -> bool:
    """Whether no child of its parent runs, so that the place of the parent is free."""
    c = t.runs.c
    sibling = select(c.id).where(c.parent_id == child.parent_id, c.status == RunStatus.RUNNING.value).limit(1)
    return connection.execute(sibling).first() is None


def _provider_of(connection: Connection, child: Row[Any]) -> str:
    """Where its sandbox is going to be: a fork of its parent's, which is where the parent's worker chose to have it."""
    if child.choice is None:
        return str(child.provider)
    return str(connection.execute(select(t.runs.c.provider).where(t.runs.c.id == child.parent_id)).scalar_one())
