"""Webhooks: where a tenant is told of what happens to its runs."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, get_args

from orchestrator.addresses import check_address
from orchestrator.errors import BadInput
from orchestrator.runs.database import now
from orchestrator.runs.webhooks import Delivery, Webhook, new_webhook_id
from orchestrator.runs.webhooks import Webhooks as WebhookRecord
from orchestrator.service.installation import Installation
from orchestrator.service.paging import Page, page_of

EventName = Literal["run.finished", "run.interrupted"]
EVENTS: tuple[EventName, ...] = get_args(EventName)
SECRET_PREFIX = "whsec_"  # noqa: S105 - it tells what a secret is for
SECRET_BYTES = 32
SECRET_PATTERN = r"^[\x21-\x7e]{16,200}$"  # noqa: S105
"""What a secret that somebody brings along must look like."""


@dataclass(frozen=True)
class NewWebhook:
    """A webhook that was just made. The secret is kept sealed, and cannot be had again."""

    webhook: Webhook
    secret: str = field(repr=False)
    """What its deliveries are signed with (`orchestrator.signature`)."""


class WebhookRoom:
    """The webhooks of one tenant."""

    def __init__(self, installation: Installation, tenant: str) -> None:
        self._of = installation
        self._tenant = tenant

    @cached_property
    def _record(self) -> WebhookRecord:
        return WebhookRecord(self._of.engine)

    def create(
        self, url: str, events: Collection[EventName] = EVENTS, *, enabled: bool = True, secret: str | None = None
    ) -> NewWebhook:
        """Have events of the tenant's runs told to an address, signed with `secret`, or with one that is made.

        Raises `BadInput` for an address that nothing may be sent to, and `Conflict` when there are too many webhooks.
        """
        if secret is not None and not re.fullmatch(SECRET_PATTERN, secret):
            raise BadInput("secret: write 16 to 200 printable ASCII characters without spaces, or leave it out")
        secret = secret or SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        webhook = Webhook(new_webhook_id(), self._tenant, self._checked_url(url), _checked_events(events), enabled, now())
        self._record.add(webhook, self._of.vault.seal(secret))
        return NewWebhook(webhook, secret)

    def get(self, webhook_id: str) -> Webhook:
        """The webhook with this id. Raises `NotFound`."""
        return self._record.get(webhook_id, tenant=self._tenant)

    def list(self, limit: int = 50, cursor: str | None = None) -> Page[Webhook]:
        """At most `limit` webhooks, the newest first. Raises `BadInput` for a cursor that is none."""
        return page_of(partial(self._record.page, tenant=self._tenant), limit, cursor)

    def change(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        events: Collection[EventName] | None = None,
        enabled: bool | None = None,
    ) -> Webhook:
        """Change what is given. What waits for a disabled webhook is sent when it is enabled within a week.

        Raises `NotFound`, or `BadInput` as `create` does.
        """
        values: dict[str, Any] = {}
        if url is not None:
            values["url"] = self._checked_url(url)
        if events is not None:
            values["events"] = [*_checked_events(events)]
        if enabled is not None:
            values["enabled"] = enabled
        return self._record.change(webhook_id, values, tenant=self._tenant)

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook, and what waits to be sent to it. Raises `NotFound`."""
        self._record.remove(webhook_id, tenant=self._tenant)

    def deliveries(self, webhook_id: str, limit: int = 50, cursor: str | None = None) -> Page[Delivery]:
        """What a webhook was sent, or is to be sent, in the last week; see `list`. Raises `NotFound`."""
        return page_of(partial(self._record.deliveries, webhook_id, tenant=self._tenant), limit, cursor)

    def test(self, webhook_id: str) -> Delivery:
        """Have something sent that is about no run. Raises `NotFound`, or `Conflict` when the webhook is disabled."""
        return self._record.add_test(webhook_id, tenant=self._tenant)

    def _checked_url(self, url: str) -> str:
        check_address(url, allow_private=self._of.settings.webhook_allow_private)
        return url


def _checked_events(events: Collection[EventName]) -> tuple[EventName, ...]:
    if unknown := sorted(set(events) - set(EVENTS)):
        raise BadInput(f"events: there is no event '{unknown[0]}'; there are {', '.join(EVENTS)}")
    if not events:
        raise BadInput(f"events: name at least one of {', '.join(EVENTS)}")
    return tuple(event for event in EVENTS if event in events)
