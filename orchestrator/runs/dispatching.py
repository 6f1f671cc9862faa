"""Deciding which runs are sent to workers, and when: fair among tenants, within every cap, only as many as can begin.

A run waits in the queue (`dispatched_at` is empty) until a decision gives it to a worker's queue. Decisions come one after the
other, whoever makes them: on PostgreSQL by the lock of the installation's row, on SQLite because there is one writer. Whoever
made one sends the nudges afterwards; those that get lost are sent again (`controller.recover`).

The fair share is that of start-time fair queueing: each run that is sent moves its tenant's virtual time (`tenants.served`) on
by one over its weight, and the tenant that is furthest behind comes next.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, bindparam, select, update

from orchestrator.policy import Placed, Policy
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.adding import add_runs, admit, has_budget, used_up, with_defaults
from orchestrator.runs.batches import NewBatch, insert_batch
from orchestrator.runs.choice import places
from orchestrator.runs.database import Database, get_run, now
from orchestrator.runs.models import NewRun, Run
from orchestrator.runs.room import Room, decides
from orchestrator.runs.spending import spent_by_tenant
from orchestrator.runs.tenants import Limits, tenant_of
from orchestrator.runs.threads import Multitask, join_thread
from orchestrator.runs.waiting import Walk, anything_waits, waiting_tenants

AT_ONCE = 100
"""Runs that one decision sends, so that others can write in between."""
AT_SUBMIT = 4
"""Runs that whoever submits one sends, its own among them when it is its turn."""
BUDGET_TTL = timedelta(seconds=2)
"""How old what a tenant has used this month may be when it is decided whether its runs are held."""
MIN_WEIGHT = 0.001


@dataclass(frozen=True)
class Send:
    """A run that was given to a queue: its nudge has to be sent."""

    run_id: str
    queue: str


@dataclass(frozen=True)
class Added:
    """What became of new runs."""

    sends: tuple[Send, ...] = ()
    """What is to be sent now; runs that waited before may be among it."""
    ended: tuple[str, ...] = ()
    """Runs of their threads that no worker had, and that were cancelled for them."""
    waiting: bool = False
    """Whether some wait in the queue."""


class Dispatching(Database):
    """The queue of an installation. Safe to use from many threads and many processes."""

    def __init__(self, engine: Engine, policy: Policy, clock: Callable[[], datetime] = now) -> None:
        super().__init__(engine, clock)
        self._policy = policy
        self._walk = Walk()
        self._budgets = _Budgets()

    def add(self, new: NewRun, multitask: Multitask = Multitask.ENQUEUE) -> tuple[Run, Added]:
        """Record a new run; when it is its turn, it is sent at once.

        Raises `QuotaExceeded`, or what `join_thread` raises; then nothing was recorded.
        """
        with self._writing() as connection:
            added = self._add(connection, [new], multitask, None)
            return get_run(connection, new.id), added

    def add_many(self, new: Sequence[NewRun], batch: NewBatch | None = None) -> Added:
        """Record new runs, and their batch, all or none of them; those whose turn it is are sent at once. Raises as `add`."""
        with self._writing() as connection:
            return self._add(connection, new, Multitask.ENQUEUE, batch)

    def _add(self, connection: Connection, new: Sequence[NewRun], multitask: Multitask, batch: NewBatch | None) -> Added:
        moment = self._now()
        admit(connection, new, moment, self._policy.tenants)
        ended = [run_id for one in new for run_id in join_thread(connection, one, multitask, moment)]
        if batch is not None:
            insert_batch(connection, batch, moment)
        add_runs(connection, new, moment)
        # While another one decides, nobody waits here: whoever is told that a run waits decides again.
        sends = self._decide(connection, AT_SUBMIT) if decides(connection, wait=False) else []
        waiting = {one.id for one in new} - {send.run_id for send in sends}
        return Added(tuple(sends), tuple(ended), bool(waiting))

    def dispatch(self, limit: int = AT_ONCE) -> list[Send]:
        """Decide; what is to be sent now. When it is as many as `limit`, there may be more."""
        with self._writing() as connection:
            decides(connection, wait=True)
            return self._decide(connection, limit)

    def anything_waits(self) -> bool:
        """Whether there is a run in the queue, whatever holds it there."""
        with self._reading() as connection:
            return anything_waits(connection)

    def queue_of(self, run_ids: Sequence[str]) -> list[Send]:
        """On which queues the nudges of these runs go, those of them that there are."""
        c = t.runs.c
        query = select(c.id, c.provider, c.labels).where(c.id.in_(run_ids))
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [Send(row.id, self._policy.queue(Placed(row.provider, row.labels))) for row in rows]

    def _decide(self, connection: Connection, limit: int) -> list[Send]:
        moment = self._now()
        room = Room.read(connection, self._policy, moment)
        if room.left <= 0:
            return []
        chosen = _Choice(connection, self._policy, room, moment, limit, self._walk)
        for tenant in waiting_tenants(connection):
            limits = with_defaults(tenant_of(tenant.row).limits, self._policy.tenants)
            if not self._budgets.held(connection, tenant.row.id, limits, moment):
                chosen.offer(tenant.row.id, tenant.served, limits)
        chosen.choose()
        return _mark(connection, chosen, moment)


class _Budgets:
    """What tenants with a budget have used, for a moment: it takes a sum over all of their runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[datetime, str | None]] = {}

    def held(self, connection: Connection, tenant: str, limits: Limits, moment: datetime) -> bool:
        if not has_budget(limits):
            return False
        with self._lock:
            until, used = self._known.get(tenant, (moment, None))
        if until <= moment:
            used = used_up(spent_by_tenant(connection, tenant, moment), limits)
            with self._lock:
                self._known[tenant] = (moment + BUDGET_TTL, used)
        return used is not None


@dataclass
class _Tenant:
    served: float
    limits: Limits
    runs: Iterator[Row[Any]]


class _Choice:
    """The runs of one decision."""

    def __init__(
        self, connection: Connection, policy: Policy, room: Room, moment: datetime, limit: int, walk: Walk
    ) -> None:
        self.sends: dict[str, Send] = {}
        self.places: dict[str, str] = {}
        """The provider of each."""
        self.served: dict[str, float] = {}
        self._connection, self._policy, self._room = connection, policy, room
        self._moment, self._limit, self._walk = moment, limit, walk
        self._tenants: dict[str, _Tenant] = {}
        self._next: list[tuple[float, str]] = []

    def offer(self, tenant: str, served: float, limits: Limits) -> None:
        """A tenant that may be served."""
        self._tenants[tenant] = _Tenant(served, limits, self._walk.along(self._connection, tenant))
        heapq.heappush(self._next, (served, tenant))

    def choose(self) -> None:
        """Serve the tenant that is furthest behind, again and again. One that has nothing to send holds nobody up."""
        while self._next and self._room.left > 0 and len(self.sends) < self._limit:
            _, name = heapq.heappop(self._next)
            tenant = self._tenants[name]
            found = self._next_run(name, tenant)
            if found is None:
                continue
            run_id, placed = found
            self.sends[run_id] = Send(run_id, self._room.take(name, placed))
            self.places[run_id] = placed.provider
            tenant.served += 1.0 / max(tenant.limits.weight, MIN_WEIGHT)
            self.served[name] = tenant.served
            heapq.heappush(self._next, (tenant.served, name))

    def _next_run(self, name: str, tenant: _Tenant) -> tuple[str, Placed] | None:
        most = tenant.limits.max_running
        if most is not None and self._room.tenants[name] >= most:
            return None
        return next(((row.id, placed) for row in tenant.runs if (placed := self._place_of(row)) is not None), None)

    def _place_of(self, row: Row[Any]) -> Placed | None:
        """Where a run can go now."""
        ready = row.ready_at is None or row.ready_at <= self._moment
        if not ready or not row.turn:
            return None
        return next((placed for placed in places(row, self._policy) if self._room.fits(placed)), None)


def _mark(connection: Connection, chosen: _Choice, moment: datetime) -> list[Send]:
    """Note what was chosen; what is to be sent. A run that was cancelled at this moment is not."""
    if not chosen.sends:
        return []
    c, tenants = t.runs.c, s.tenants
    marked: set[str] = set()
    for provider in sorted(set(chosen.places.values())):
        ids = [run_id for run_id, place in chosen.places.items() if place == provider]
        sent = update(t.runs).where(c.id.in_(ids), t.WAITING).values(dispatched_at=moment, provider=provider)
        marked.update(connection.execute(sent.returning(c.id)).scalars())
    served = update(tenants).where(tenants.c.id == bindparam("tenant")).values(served=bindparam("now"))
    connection.execute(served, [{"tenant": name, "now": value} for name, value in sorted(chosen.served.items())])
    return [send for send in chosen.sends.values() if send.run_id in marked]
