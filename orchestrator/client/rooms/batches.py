"""Batches: many runs in one call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Any, Literal

from orchestrator.client.caller import Caller, at, new_key, queried
from orchestrator.client.driving import Blocking, blocking, iterating
from orchestrator.client.models import Batch, NewBatch, Page
from orchestrator.client.orders import Order, order_of
from orchestrator.client.rooms.paging import DEFAULT_LIMIT, every
from orchestrator.client.transport import Ask
from orchestrator.spec import RunSpec

Mode = Literal["atomic", "partial"]
"""What happens when a line is wrong: no run is made, or the others are."""

BATCH_PATIENCE = 300.0
"""Seconds for a server to record a batch."""


class AsyncBatches:
    """Batches of the key's tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self,
        orders: Iterable[Order | RunSpec | Mapping[str, Any]],
        *,
        mode: Mode = "atomic",
        name: str | None = None,
        idempotency_key: str | None = None,
    ) -> NewBatch:
        """Make a run of each order, at most 10,000. A task stands for an order without files; `runs.prepare` uploads files.

        With the same key and the same orders it is the same batch. Raises `BadInput` that names each line that is wrong.
        """
        content = await self._caller.transport.work(lambda: _lines(orders))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": idempotency_key or new_key()}
        params = queried({"mode": mode, "name": name})
        ask = Ask("POST", at("batches"), params, headers, content, repeatable=True, patience=BATCH_PATIENCE)
        return self._caller.parsed(NewBatch, await self._caller.ask(ask))

    async def list(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[Batch]:
        """One page of batches, the newest first."""
        return await self._caller.get(Page[Batch], "batches", params={"limit": limit, "cursor": cursor})

    async def iterate(self, *, page_size: int = DEFAULT_LIMIT) -> AsyncIterator[Batch]:
        """Every batch."""
        page_at = partial(self.list, limit=page_size)
        async for batch in every(lambda cursor: page_at(cursor=cursor)):
            yield batch

    async def get(self, batch_id: str) -> Batch:
        """The batch, and how far its runs are."""
        return await self._caller.get(Batch, "batches", batch_id)

    async def cancel(self, batch_id: str) -> Batch:
        """Ask for all its runs to stop; those that have ended stay as they are."""
        return await self._caller.post(Batch, "batches", batch_id, "cancel", repeatable=True)


class Batches(Blocking[AsyncBatches]):
    """See `AsyncBatches`."""

    create = blocking(AsyncBatches.create)
    list = blocking(AsyncBatches.list)
    iterate = iterating(AsyncBatches.iterate)
    get = blocking(AsyncBatches.get)
    cancel = blocking(AsyncBatches.cancel)


def _lines(orders: Iterable[Order | RunSpec | Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(order_of(one).body()).encode() + b"\n" for one in orders)
