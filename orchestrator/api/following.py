"""Following runs over HTTP: their events as they come, and their end.

Each look at the record is a short call in a thread; between two looks nothing is held but the connection. So a client that
leaves, or a server that ends, stops it at the next look.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from sse_starlette.event import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from orchestrator.api.heads import Heads
from orchestrator.api.shapes import EventModel
from orchestrator.runs.models import Event, Run
from orchestrator.service import Service

PAGE = 200
"""Events that one look takes."""
RETRY = 1000
"""Milliseconds after which a client that lost its connection is to come again."""
NEVER = 2**63
"""More than the number of any event."""

Page = tuple[Sequence[Event], bool]
"""Events, and whether none comes after them."""


class Following:
    """A tenant's runs, followed by one request."""

    def __init__(self, service: Service, heads: Heads) -> None:
        self._service = service
        self._heads = heads

    async def stream(self, run_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
        """The events of a run after the one numbered `after`, until its end or the server's."""
        with self._heads.follow(run_id, eager=True) as follower:
            while not self._heads.stopping():
                page, ended = await self._look(run_id, after, PAGE)
                for event in page:
                    after = event.seq
                    data = EventModel.of(event).model_dump_json()
                    yield ServerSentEvent(data=data, id=str(after), event=event.type, retry=RETRY)
                if ended:
                    return
                await follower.news(after)

    async def next_page(self, run_id: str, after: int, *, limit: int, wait: float) -> Page:
        """At most `limit` events after the one numbered `after`, as soon as there are any, or after `wait` seconds."""
        deadline = time.monotonic() + wait
        page, ended = await self._look(run_id, after, limit)
        if page or ended or not wait:
            return page, ended
        with self._heads.follow(run_id, eager=True) as follower:
            while not (page or ended or self._heads.stopping()) and (left := deadline - time.monotonic()) > 0:
                await follower.news(after, left)
                page, ended = await self._look(run_id, after, limit)
        return page, ended

    async def end(self, run_id: str, timeout: float) -> Run:
        """The run when it has ended, or as it is after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        run = await run_in_threadpool(self._service.get, run_id)
        if run.status.terminal or not timeout:
            return run
        with self._heads.follow(run.id, eager=False) as follower:
            while not (run.status.terminal or self._heads.stopping()) and (left := deadline - time.monotonic()) > 0:
                await follower.news(NEVER, left)
                run = await run_in_threadpool(self._service.get, run.id)
        return run

    async def _look(self, run_id: str, after: int, limit: int) -> Page:
        return await run_in_threadpool(self._service.events_after, run_id, after, limit)
