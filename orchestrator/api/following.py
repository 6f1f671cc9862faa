"""Following a run over HTTP: its events as they come, and its end.

Each look at the record is a short call in a thread; between two looks nothing is held but the connection. So a client that
leaves, or a server that ends, stops it at the next look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from sse_starlette.event import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from orchestrator.api.ends import Ends
from orchestrator.api.shapes import EventModel
from orchestrator.runs.models import Event, Run
from orchestrator.service import Service

FIRST_POLL = 0.01
"""Seconds between two looks while things happen."""
LAST_POLL = 0.5
"""Seconds between two looks when nothing has happened for a while."""
GROWTH = 1.2
"""How much longer each pause is than the one before: nobody waits a fifth longer than the run takes."""
PAGE = 200
"""Events that one look takes."""
RETRY = 1000
"""Milliseconds after which a client that lost its connection is to come again."""


class Pace:
    """Pauses between looks that grow while nothing happens."""

    def __init__(self) -> None:
        self._pause = FIRST_POLL

    def reset(self) -> None:
        """Something has happened."""
        self._pause = FIRST_POLL

    async def wait(self, at_most: float = LAST_POLL) -> None:
        """Pause."""
        await asyncio.sleep(max(0.0, min(self._pause, at_most)))
        self._pause = min(self._pause * GROWTH, LAST_POLL)


async def stream_events(
    service: Service, run_id: str, after: int, stopping: Callable[[], bool]
) -> AsyncIterator[ServerSentEvent]:
    """The events of a run after the one numbered `after`, until its end or the server's."""
    pace = Pace()
    while not stopping():
        page, ended = await run_in_threadpool(service.events_after, run_id, after, PAGE)
        for event in page:
            after = event.seq
            yield ServerSentEvent(data=EventModel.of(event).model_dump_json(), id=str(after), event=event.type, retry=RETRY)
        if ended:
            return
        if page:
            pace.reset()
        if len(page) < PAGE:
            await pace.wait()


async def next_events(
    service: Service, run_id: str, after: int, *, limit: int, wait: float, stopping: Callable[[], bool]
) -> tuple[Sequence[Event], bool]:
    """The events after the one numbered `after`, as soon as there are any, or after `wait` seconds; and whether it is over."""
    pace, deadline = Pace(), time.monotonic() + wait
    while True:
        page, ended = await run_in_threadpool(service.events_after, run_id, after, limit)
        left = deadline - time.monotonic()
        if page or ended or left <= 0 or stopping():
            return page, ended
        await pace.wait(left)


async def wait_for_end(service: Service, run_id: str, ends: Ends, *, timeout: float, stopping: Callable[[], bool]) -> Run:
    """The run when it has ended, or as it is after `timeout` seconds. A look now and then is for word that was lost."""
    deadline = time.monotonic() + timeout
    run = await run_in_threadpool(service.get, run_id)
    with ends.of(run.id) as ended:
        while not run.status.terminal and not stopping() and (left := deadline - time.monotonic()) > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), min(LAST_POLL, left))
            ended.clear()
            run = await run_in_threadpool(service.get, run.id)
    return run
