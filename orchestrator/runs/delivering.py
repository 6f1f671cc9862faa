"""What a controller asks the record about deliveries: what is due, and what became of it.

Whoever sends a delivery takes it first, which puts it off: when that process dies, it is due again soon after. So a receiver
gets everything at least once, and twice only when its answer could not be recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, delete, select, update

from orchestrator.runs import service_tables as s
from orchestrator.runs.database import Database
from orchestrator.runs.outbox import WAITING

TAKEN_FOR = 120.0
"""Seconds until what was taken is due again; longer than any attempt, with the time in which a name is looked up."""
PER_WEBHOOK = 2
"""Deliveries to one webhook at once, so that a slow receiver holds up nobody but itself."""
PER_TENANT = 4
"""Deliveries of one tenant at once."""
LOOK_AT = 200
"""Deliveries among which one look chooses."""
KEEP = 7 * 86400.0
"""Seconds after which a delivery is forgotten, whatever became of it."""
FORGET_AT_ONCE = 1000
"""Deliveries that one transaction forgets, so that others can write in between."""


@dataclass(frozen=True)
class Taken:
    """A delivery that is to be sent now."""

    id: str
    webhook_id: str
    tenant: str
    url: str
    secret: str
    """As it was sealed."""
    payload: dict[str, Any]
    attempt: int
    """Counts from 1."""


@dataclass(frozen=True)
class Busy:
    """What is being sent: how many deliveries for each webhook, and for each tenant."""

    webhooks: Mapping[str, int]
    tenants: Mapping[str, int]


class Deliveries(Database):
    """The deliveries of all tenants, as a controller sees them."""

    def take(self, limit: int, busy: Busy) -> list[Taken]:
        """Take at most so many deliveries that are due, the longest due first, and of no webhook or tenant too many."""
        c = s.deliveries.c
        with self._reading() as connection:  # most of the time nothing is due, and then nobody has to write
            due = connection.execute(_due(self._now(), busy)).all()
        chosen = _choose(due, limit, busy)
        if not chosen:
            return []
        moment = self._now()
        taking = update(s.deliveries).where(c.id.in_(chosen), c.next_at <= moment)
        values = {"next_at": moment + timedelta(seconds=TAKEN_FOR), "attempts": c.attempts + 1}
        with self._writing() as connection:
            taken = list(connection.execute(taking.values(values).returning(c.id)).scalars())
            query = select(s.deliveries, s.webhooks.c.tenant, s.webhooks.c.url, s.webhooks.c.secret).join(s.webhooks)
            rows = connection.execute(query.where(c.id.in_(taken))).all()
        return [
            Taken(row.id, row.webhook_id, row.tenant, row.url, row.secret, row.payload, row.attempts) for row in rows
        ]

    def delivered(self, taken: Taken, answer: int) -> None:
        """Note that a receiver has it. Nothing happens when it was taken again since."""
        self._settle(taken, {"status": "delivered", "answer": answer, "error": None, "next_at": None})

    def put_off(self, taken: Taken, answer: int | None, error: str, seconds: float) -> None:
        """Note why it was not delivered; it is due again after so many seconds."""
        next_at = self._now() + timedelta(seconds=seconds)
        self._settle(taken, {"answer": answer, "error": error, "next_at": next_at})

    def failed(self, taken: Taken, answer: int | None, error: str) -> None:
        """Note why it was not delivered, and that it never will be."""
        self._settle(taken, {"status": "failed", "answer": answer, "error": error, "next_at": None})

    def _settle(self, taken: Taken, values: dict[str, Any]) -> None:
        c = s.deliveries.c
        mine = (c.id == taken.id, c.attempts == taken.attempt, c.status == WAITING)
        with self._writing() as connection:
            connection.execute(update(s.deliveries).where(*mine).values(values))

    def forget_old(self) -> int:
        """Delete deliveries that are older than `KEEP`; how many."""
        c = s.deliveries.c
        old = select(c.id).where(c.created_at < self._now() - timedelta(seconds=KEEP)).limit(FORGET_AT_ONCE)
        total = 0
        while True:
            with self._writing() as connection:
                gone = connection.execute(delete(s.deliveries).where(c.id.in_(old))).rowcount
            total += gone
            if gone < FORGET_AT_ONCE:
                return total


def _due(moment: datetime, busy: Busy) -> Select[Any]:
    """The first ones that are due, but for whoever is told enough at the moment: so one with very many hides nobody else."""
    c, w = s.deliveries.c, s.webhooks.c
    full_webhooks = [name for name, number in busy.webhooks.items() if number >= PER_WEBHOOK]
    full_tenants = [name for name, number in busy.tenants.items() if number >= PER_TENANT]
    others = (c.webhook_id.not_in(full_webhooks), w.tenant.not_in(full_tenants))
    due = select(c.id, c.webhook_id, w.tenant).join(s.webhooks, w.id == c.webhook_id).where(c.next_at <= moment, w.enabled)
    return due.where(*others).order_by(c.next_at).limit(LOOK_AT)


def _choose(due: Any, limit: int, busy: Busy) -> list[str]:
    webhooks, tenants = Counter(busy.webhooks), Counter(busy.tenants)
    chosen: list[str] = []
    for row in due:
        if len(chosen) < limit and webhooks[row.webhook_id] < PER_WEBHOOK and tenants[row.tenant] < PER_TENANT:
            webhooks[row.webhook_id] += 1
            tenants[row.tenant] += 1
            chosen.append(row.id)
    return chosen
