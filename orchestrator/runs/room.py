"""How much may be sent to workers: what they can take, and what the caps leave of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, select

from orchestrator.policy import Placed, Policy
from orchestrator.runs import tables as t
from orchestrator.runs.models import RunStatus
from orchestrator.runs.reading import WORKER_TTL

LOOK_AHEAD = 1
"""Runs that are on their way to each worker beyond those that it can execute, so that it need not wait for the next one."""

_AT_WORK = [status.value for status in (RunStatus.PENDING, RunStatus.RUNNING)]
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Room:
    """Counts down as runs are taken. It is one decision's: read and used in one transaction, under the lock of decisions."""

    def __init__(self, policy: Policy, workers: Iterable[tuple[Sequence[str], int]]) -> None:
        """`workers` are the queues of each, and how many runs it executes at once."""
        self._policy = policy
        self._slots: Counter[str] = Counter()
        """By queue."""
        self._all = 0
        for queues, concurrency in workers:
            self._all += concurrency + LOOK_AHEAD
            for queue in queues:
                self._slots[queue] += concurrency + LOOK_AHEAD
        self._queued: Counter[str] = Counter()
        self._providers: Counter[str] = Counter()
        self._sandboxes: Counter[str] = Counter()
        """Runs that have a sandbox, or are about to make one, by provider; counted where the policy looks at it."""
        self._labels: Counter[str] = Counter()
        self.tenants: Counter[str] = Counter()
        """Runs at work, by tenant."""

    @classmethod
    def read(cls, connection: Connection, policy: Policy, moment: datetime) -> Room:
        """As it is now."""
        w = t.workers.c
        alive = select(w.queues, w.concurrency).where(w.heartbeat_at > moment - timedelta(seconds=WORKER_TTL))
        room = cls(policy, [(row.queues, row.concurrency) for row in connection.execute(alive)])
        if room._all:
            room._count(connection)
        return room

    @classmethod
    def of_caps(cls, connection: Connection, policy: Policy) -> Room:
        """As it is now for runs that take no worker's place: only the caps bound them."""
        room = cls(policy, ())
        room._count(connection)
        return room

    def _count(self, connection: Connection) -> None:
        r = t.runs.c
        columns = (r.tenant, r.provider, r.labels, r.parent_id)
        # A comparison rather than "is not null": SQLite walks an index of both columns with it.
        for row in connection.execute(select(*columns).where(r.status.in_(_AT_WORK), r.dispatched_at > _LONG_AGO)):
            placed = Placed(row.provider, row.labels)
            if row.parent_id is None:
                self.take(row.tenant, placed)
            else:  # it is executed in the place of its parent
                self._charge(row.tenant, placed)
        if self._policy.caps_sandboxes:
            housed = select(r.provider, func.count().label("count")).where(t.HOUSED).group_by(r.provider)
            self._sandboxes.update({row.provider: row.count for row in connection.execute(housed)})

    @property
    def left(self) -> int:
        """How many more runs workers can take. Those of a queue whose workers are gone take nobody else's place."""
        return self._all - sum(min(count, self._slots[queue]) for queue, count in self._queued.items())

    def take(self, tenant: str, run: Placed) -> str:
        """A run is at work, or is sent now; its queue."""
        queue = self._policy.queue(run)
        self._queued[queue] += 1
        self._charge(tenant, run)
        return queue

    def _charge(self, tenant: str, run: Placed) -> None:
        self._providers[run.provider] += 1
        self._sandboxes[run.provider] += not run.housed
        self._labels.update([label for label in self._policy.caps.label if run.has(label)])
        self.tenants[tenant] += 1

    def fits(self, run: Placed) -> bool:
        """Whether one more of its kind may be sent."""
        queue = self._policy.queue(run)
        return self._queued[queue] < self._slots[queue] and self.within_caps(run)

    def within_caps(self, run: Placed) -> bool:
        """Whether one more of its kind may be at work, whoever has a place for it."""
        labels = self._policy.caps.label
        free = not any(self._labels[label] >= most for label, most in labels.items() if run.has(label))
        return free and self.has_place_at(run.provider, housed=run.housed)

    def has_place_at(self, provider: str, *, housed: bool = False) -> bool:
        """Whether one more may be at work with a sandbox of this provider; `housed`: one that has its sandbox there already."""
        at_work, sandboxes = self._policy.caps.provider.get(provider), self._policy.rule(provider).max_running
        if at_work is not None and self._providers[provider] >= at_work:
            return False
        return housed or sandboxes is None or self._sandboxes[provider] < sandboxes


def decides(connection: Connection, *, wait: bool) -> bool:
    """Hold the lock of decisions until the transaction ends; False when another one does, and nobody is to wait for it."""
    if connection.dialect.name == "sqlite":  # whoever writes has the lock of everything
        return True
    query = select(t.installation.c.id).with_for_update(skip_locked=not wait)
    return connection.execute(query).one_or_none() is not None
