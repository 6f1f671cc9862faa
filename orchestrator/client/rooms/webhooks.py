"""Webhooks: where the tenant is told of its runs. (`orchestrator.client.webhooks` checks what is delivered.)"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from orchestrator.client.caller import Caller
from orchestrator.client.driving import Blocking, blocking, iterating
from orchestrator.client.models import Delivery, NewWebhook, Page, Webhook
from orchestrator.client.rooms.paging import DEFAULT_LIMIT, every


class AsyncWebhooks:
    """Webhooks of the key's tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self, url: str, *, events: Sequence[str] | None = None, enabled: bool = True, secret: str | None = None
    ) -> NewWebhook:
        """Have events (default: all there are) told to an address. What signs them is told only now. It is asked for once."""
        body = {"url": url, "events": None if events is None else list(events), "enabled": enabled, "secret": secret}
        return await self._caller.post(NewWebhook, "webhooks", body=body)

    async def list(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[Webhook]:
        """One page of webhooks, the newest first."""
        return await self._caller.get(Page[Webhook], "webhooks", params={"limit": limit, "cursor": cursor})

    async def iterate(self, *, page_size: int = DEFAULT_LIMIT) -> AsyncIterator[Webhook]:
        """Every webhook."""
        page_at = partial(self.list, limit=page_size)
        async for webhook in every(lambda cursor: page_at(cursor=cursor)):
            yield webhook

    async def get(self, webhook_id: str) -> Webhook:
        """The webhook as it is now."""
        return await self._caller.get(Webhook, "webhooks", webhook_id)

    async def change(
        self, webhook_id: str, *, url: str | None = None, events: Sequence[str] | None = None, enabled: bool | None = None
    ) -> Webhook:
        """Change what is given."""
        body = {"url": url, "events": None if events is None else list(events), "enabled": enabled}
        return await self._caller.change(Webhook, "PATCH", "webhooks", webhook_id, body=body)

    async def delete(self, webhook_id: str) -> None:
        """Remove a webhook, and what waits to be sent to it."""
        await self._caller.delete("webhooks", webhook_id)

    async def deliveries(
        self, webhook_id: str, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None
    ) -> Page[Delivery]:
        """One page of what it was sent, or is to be sent, the newest first."""
        params = {"limit": limit, "cursor": cursor}
        return await self._caller.get(Page[Delivery], "webhooks", webhook_id, "deliveries", params=params)

    async def test(self, webhook_id: str) -> Delivery:
        """Have a delivery sent that is about no run."""
        return await self._caller.post(Delivery, "webhooks", webhook_id, "test")


class Webhooks(Blocking[AsyncWebhooks]):
    """See `AsyncWebhooks`."""

    create = blocking(AsyncWebhooks.create)
    list = blocking(AsyncWebhooks.list)
    iterate = iterating(AsyncWebhooks.iterate)
    get = blocking(AsyncWebhooks.get)
    change = blocking(AsyncWebhooks.change)
    delete = blocking(AsyncWebhooks.delete)
    deliveries = blocking(AsyncWebhooks.deliveries)
    test = blocking(AsyncWebhooks.test)
