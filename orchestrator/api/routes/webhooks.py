"""Webhooks of the tenant: where it is told of its runs."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field, StrictBool

from orchestrator.addresses import MAX_URL
from orchestrator.api.auth import Reads, Writes
from orchestrator.api.routes.runs import Cursor, Limit
from orchestrator.runs.webhooks import Delivery, Webhook
from orchestrator.service.webhooks import EVENTS, SECRET_PATTERN, EventName
from sandboxes.providers.base import Strict

router = APIRouter(tags=["webhooks"])

WebhookId = Annotated[str, Path(pattern=r"^whk-[0-9a-f]{12}$")]
Url = Annotated[str, Field(min_length=1, max_length=MAX_URL)]
Events = Annotated[tuple[EventName, ...], Field(min_length=1, max_length=10)]


class WebhookBody(Strict):
    """A webhook to be made."""

    url: Url
    """`https://`, of the open internet; the operator may allow the own network too."""
    events: Events = EVENTS
    enabled: StrictBool = True
    secret: str | None = Field(None, pattern=SECRET_PATTERN, repr=False)
    """What its deliveries are signed with. Default: one is made."""


class WebhookChange(Strict):
    """What is to be changed of a webhook; what is left out, or null, stays."""

    url: Url | None = None
    events: Events | None = None
    enabled: StrictBool | None = None


class WebhookModel(BaseModel):
    """A webhook, without its secret."""

    id: str
    tenant: str
    url: str
    events: list[str]
    enabled: bool
    created_at: datetime

    @classmethod
    def of(cls, webhook: Webhook) -> WebhookModel:
        """From the record's."""
        return cls(**{**vars(webhook), "events": list(webhook.events)})


class NewWebhookModel(WebhookModel):
    """A webhook that was just made."""

    secret: str
    """What its deliveries are signed with. It is shown only now."""


class WebhookPage(BaseModel):
    """Some of the webhooks, newest first."""

    items: list[WebhookModel]
    next_cursor: str | None
    """For `cursor` of the next request; null at the end."""


class DeliveryModel(BaseModel):
    """One event for one webhook."""

    id: str
    webhook_id: str
    run_id: str | None
    event: str
    status: str
    """`waiting`, `delivered` or `failed`."""
    attempts: int
    created_at: datetime
    next_at: datetime | None
    """When it is sent (again); null when it never is."""
    answer: int | None
    """The status of the receiver's last answer; null when there was none."""
    error: str | None
    """Why the last attempt failed."""

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryModel:
        """From the record's."""
        return cls(**vars(delivery))


class DeliveryPage(BaseModel):
    """Some of the deliveries, newest first."""

    items: list[DeliveryModel]
    next_cursor: str | None
    """For `cursor` of the next request; null at the end."""


@router.post("/webhooks", status_code=HTTPStatus.CREATED)
def create_webhook(caller: Writes, body: WebhookBody, response: Response) -> NewWebhookModel:
    """Have events of the tenant's runs told to an address."""
    made = caller.service.webhooks.create(body.url, body.events, enabled=body.enabled, secret=body.secret)
    response.headers["Location"] = f"/v1/webhooks/{made.webhook.id}"
    return NewWebhookModel(**WebhookModel.of(made.webhook).model_dump(), secret=made.secret)


@router.get("/webhooks")
def list_webhooks(caller: Reads, limit: Limit = 50, cursor: Cursor = None) -> WebhookPage:
    """The tenant's webhooks, newest first."""
    page = caller.service.webhooks.list(limit, cursor)
    return WebhookPage(items=[WebhookModel.of(webhook) for webhook in page.items], next_cursor=page.cursor)


@router.get("/webhooks/{webhook_id}")
def get_webhook(caller: Reads, webhook_id: WebhookId) -> WebhookModel:
    """One webhook."""
    return WebhookModel.of(caller.service.webhooks.get(webhook_id))


@router.patch("/webhooks/{webhook_id}")
def change_webhook(caller: Writes, webhook_id: WebhookId, body: WebhookChange) -> WebhookModel:
    """Change a webhook. What waits for one that is disabled is sent when it is enabled within a week."""
    changed = caller.service.webhooks.change(webhook_id, url=body.url, events=body.events, enabled=body.enabled)
    return WebhookModel.of(changed)


@router.delete("/webhooks/{webhook_id}", status_code=HTTPStatus.NO_CONTENT)
def delete_webhook(caller: Writes, webhook_id: WebhookId) -> None:
    """Delete a webhook, and what waits to be sent to it."""
    caller.service.webhooks.delete(webhook_id)


@router.get("/webhooks/{webhook_id}/deliveries")
def list_deliveries(caller: Reads, webhook_id: WebhookId, limit: Limit = 50, cursor: Cursor = None) -> DeliveryPage:
    """What a webhook was sent, or is to be sent, in the last week, newest first."""
    page = caller.service.webhooks.deliveries(webhook_id, limit, cursor)
    return DeliveryPage(items=[DeliveryModel.of(delivery) for delivery in page.items], next_cursor=page.cursor)


@router.post("/webhooks/{webhook_id}/test", status_code=HTTPStatus.ACCEPTED)
def test_webhook(caller: Writes, webhook_id: WebhookId) -> DeliveryModel:
    """Have a delivery with the event `webhook.test` sent, which is about no run."""
    return DeliveryModel.of(caller.service.webhooks.test(webhook_id))
