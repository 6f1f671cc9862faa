"""The events of a run as they happen, over connections that may break: each event once, in order, none left out."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from orchestrator.client.caller import Caller, at
from orchestrator.client.models import Event, Events
from orchestrator.client.problems import Unavailable
from orchestrator.client.retrying import backoff
from orchestrator.client.sse import Message, MessageReader
from orchestrator.client.transport import Ask, Stream
from orchestrator.errors import FanfoldError, InfrastructureError, QuotaExceeded

SILENCE = 60.0
"""Seconds without a byte after which a connection is taken for dead; servers send a sign of life more often."""
PATIENCE = 120.0
"""Seconds without a server that answers after which following is given up."""
PAGE = 1000
"""Events that one question asks for."""
LAST = "run.finished"


@dataclass
class _Endurance:
    """How long it goes on without an answer."""

    failures: int = 0
    since: float = field(default_factory=time.monotonic)
    _random: random.Random = field(default_factory=random.Random, repr=False)

    def alive(self) -> None:
        """Something has come."""
        self.failures, self.since = 0, time.monotonic()

    def next_wait(self, asked: float | None) -> float | None:
        """Seconds before the next try, as many as the server `asked` for when it did; None when it is enough."""
        self.failures += 1
        wait = backoff(self.failures, self._random) if asked is None else asked
        return None if time.monotonic() - self.since + wait > PATIENCE else wait


async def follow(caller: Caller, run_id: str, after: int) -> AsyncIterator[Event]:
    """What comes after the event numbered `after`, until the run has ended. Raises `InfrastructureError`, `NotFound`."""
    endurance = _Endurance()
    while True:
        error: FanfoldError = InfrastructureError(f"{caller.url} ends the events of run {run_id} before the run has ended")
        asked: float | None = None
        try:
            async with caller.stream(_question(run_id, after)) as stream:
                async for event in _read(stream, endurance):
                    if event.seq > after:
                        after = event.seq
                        yield event
                    if event.type == LAST:
                        return
            # A server that is about to leave ends the stream, and so does a run that has no last event.
            rest = await page(caller, run_id, after, wait=0)
            for event in rest.items:
                after = event.seq
                yield event
            if rest.ended:
                return
        except Unavailable as exc:
            error = exc
        except QuotaExceeded as exc:
            error, asked = exc, exc.retry_after
        wait = endurance.next_wait(asked)
        if wait is None:
            raise error
        await caller.transport.sleep(wait)


async def page(caller: Caller, run_id: str, after: int, *, wait: float, limit: int = PAGE) -> Events:
    """At most `limit` events after that one; when there are none, those that come within `wait` seconds."""
    params = {"after": after, "wait": f"{wait:g}", "limit": limit}
    return await caller.get(Events, "runs", run_id, "events", params=params, patience=wait + SILENCE)


def _question(run_id: str, after: int) -> Ask:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    return Ask("GET", at("runs", run_id, "events"), headers=headers, repeatable=True, patience=SILENCE)


async def _read(stream: Stream, endurance: _Endurance) -> AsyncIterator[Event]:
    reader = MessageReader()
    async for piece in stream.pieces:
        endurance.alive()
        for message in reader.feed(piece):
            yield _event(message)


def _event(message: Message) -> Event:
    try:
        return Event.model_validate_json(message.data)
    except ValidationError as exc:
        raise InfrastructureError(f"the server sends an event that is none: {message.data[:200]!r}") from exc
