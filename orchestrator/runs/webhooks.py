"""Webhooks in the record: where each tenant is told of what happens to its runs, and what it was told."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from orchestrator.errors import Conflict, NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs.database import Database, newest
from orchestrator.runs.outbox import delivery_values, payload_of

MAX_WEBHOOKS = 20
"""Webhooks of one tenant: whoever ends a run notes a delivery for each."""
TEST_EVENT = "webhook.test"
"""What is sent when somebody asks for it; about no run."""


@dataclass(frozen=True)
class Webhook:
    """Where a tenant is told of its runs."""

    id: str
    tenant: str
    url: str
    events: tuple[str, ...]
    enabled: bool
    created_at: datetime


@dataclass(frozen=True)
class Delivery:
    """One event for one webhook. It is `waiting`, and then `delivered` or `failed` for good."""

    id: str
    webhook_id: str
    run_id: str | None
    event: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None
    """When it is sent (again); None when it never is."""
    answer: int | None
    """The status of the receiver's last answer; None when there was none."""
    error: str | None
    """Why the last attempt failed."""


def new_webhook_id() -> str:
    """`whk-` and 12 hexadecimal digits."""
    return "whk-" + secrets.token_hex(6)


class Webhooks(Database):
    """The webhooks of each tenant. Another tenant's is not there."""

    def add(self, webhook: Webhook, sealed_secret: str) -> None:
        """Record a new webhook. Raises `Conflict` when its tenant has too many."""
        values = {**vars(webhook), "events": list(webhook.events), "secret": sealed_secret}
        with self._writing() as connection:
            count = select(func.count()).select_from(s.webhooks).where(s.webhooks.c.tenant == webhook.tenant)
            if connection.execute(count).scalar_one() >= MAX_WEBHOOKS:
                raise Conflict(f"there are {MAX_WEBHOOKS} webhooks already, and no tenant may have more: delete one")
            connection.execute(insert(s.webhooks).values(values))

    def get(self, webhook_id: str, *, tenant: str) -> Webhook:
        """The webhook with this very id. Raises `NotFound`."""
        with self._reading() as connection:
            return _get(connection, webhook_id, tenant)

    def page(self, limit: int, before: tuple[datetime, str] | None = None, *, tenant: str) -> list[Webhook]:
        """At most `limit` webhooks, the newest first; those that come after the one made then, with that id."""
        query = newest(select(s.webhooks).where(s.webhooks.c.tenant == tenant), s.webhooks, limit, before)
        with self._reading() as connection:
            return [_webhook_of(row) for row in connection.execute(query)]

    def change(self, webhook_id: str, values: dict[str, Any], *, tenant: str) -> Webhook:
        """Replace fields of a webhook. Raises `NotFound`."""
        c = s.webhooks.c
        with self._writing() as connection:
            if values:
                connection.execute(update(s.webhooks).where(c.id == webhook_id, c.tenant == tenant).values(values))
            return _get(connection, webhook_id, tenant)

    def remove(self, webhook_id: str, *, tenant: str) -> None:
        """Delete a webhook and its deliveries. Raises `NotFound`."""
        c = s.webhooks.c
        with self._writing() as connection:
            _get(connection, webhook_id, tenant)
            connection.execute(delete(s.webhooks).where(c.id == webhook_id, c.tenant == tenant))

    def deliveries(
        self, webhook_id: str, limit: int, before: tuple[datetime, str] | None = None, *, tenant: str
    ) -> list[Delivery]:
        """At most `limit` deliveries of a webhook, the newest first; see `page`. Raises `NotFound`."""
        own = select(s.deliveries).where(s.deliveries.c.webhook_id == webhook_id)
        with self._reading() as connection:
            _get(connection, webhook_id, tenant)
            return [_delivery_of(row) for row in connection.execute(newest(own, s.deliveries, limit, before))]

    def add_test(self, webhook_id: str, *, tenant: str) -> Delivery:
        """Have something sent that is about no run. Raises `NotFound`, or `Conflict` when the webhook is disabled."""
        moment = self._now()
        values = delivery_values(webhook_id, "", TEST_EVENT, payload_of(TEST_EVENT, moment, None, {}), moment)
        with self._writing() as connection:
            if not _get(connection, webhook_id, tenant, lock=True).enabled:
                raise Conflict(f"webhook {webhook_id} is disabled, and nothing is sent to it: enable it first")
            connection.execute(insert(s.deliveries).values(values))
            row = connection.execute(select(s.deliveries).where(s.deliveries.c.id == values["id"])).one()
            return _delivery_of(row)


def _get(connection: Connection, webhook_id: str, tenant: str, *, lock: bool = False) -> Webhook:
    c = s.webhooks.c
    query: Select[Any] = select(s.webhooks).where(c.id == webhook_id, c.tenant == tenant)
    row = connection.execute(query.with_for_update(read=True, key_share=True) if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"there is no webhook '{webhook_id}'; GET /v1/webhooks lists them")
    return _webhook_of(row)


def _webhook_of(row: Row[Any]) -> Webhook:
    return Webhook(row.id, row.tenant, row.url, tuple(row.events), row.enabled, row.created_at)


def _delivery_of(row: Row[Any]) -> Delivery:
    return Delivery(
        id=row.id,
        webhook_id=row.webhook_id,
        run_id=row.run_id or None,
        event=row.event,
        status=row.status,
        attempts=row.attempts,
        created_at=row.created_at,
        next_at=row.next_at,
        answer=row.answer,
        error=row.error,
    )
