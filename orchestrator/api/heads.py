"""How far the runs are that somebody follows: one look at the record for all of them, however many follow.

A run is looked at soon after something has happened in it, and ever more seldom while nothing does. Those that are soon due are
looked at together. Word through the broker that a run has ended has it looked at at once. All of it is of one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from orchestrator.runs.models import Head
from orchestrator.wake import ENDED, Bell

FIRST_POLL = 0.01
"""Seconds between two looks while things happen."""
LAST_POLL = 0.5
"""Seconds between two looks when nothing has happened for a while."""
GROWTH = 1.2
"""How much longer each pause is than the one before: nobody waits a fifth longer than the run takes."""

UNKNOWN = Head(last_seq=0, ended=False)
"""Before the first look, nothing is known to have happened."""

_log = logging.getLogger("fanfold.api")


class Follower:
    """One who waits for news of one run."""

    def __init__(self, run: _Followed, *, eager: bool) -> None:
        self.eager = eager
        """Whether events are waited for, too: their run is looked at more often than one whose end alone matters."""
        self._run = run
        self._known = 0
        self._woken = asyncio.Event()

    async def news(self, known: int, timeout: float | None = None) -> None:
        """Wait until there are events after the one numbered `known`, or the run has ended; at most so many seconds.

        It returns as well when the server ends, when the run has gone, and when the record cannot be read: whoever follows
        looks for itself, and finds out.
        """
        self._known = known
        self._woken.clear()
        if not self._run.head.beyond(known):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), timeout)

    def tell(self, head: Head | None) -> None:
        """Wake who waits if this is news to it; None: it has to look for itself."""
        if head is None or head.beyond(self._known):
            self._woken.set()


@dataclass(eq=False)
class _Followed:
    """A run that somebody follows."""

    head: Head = UNKNOWN
    """As of the last look."""
    pause: float = LAST_POLL
    due: float = field(default_factory=time.monotonic)
    followers: set[Follower] = field(default_factory=set)

    def hurry(self) -> None:
        """Look soon, and often at first."""
        self.pause = FIRST_POLL
        self.due = min(self.due, time.monotonic() + self.pause)

    def seen(self, head: Head | None) -> None:
        """What a look has found: where the run is, or None when that could not be told."""
        moved = head is not None and head != self.head
        if moved and any(follower.eager for follower in self.followers):
            self.pause = FIRST_POLL
        else:
            self.pause = min(self.pause * GROWTH, LAST_POLL)
        self.due = time.monotonic() + self.pause
        self.head = head or self.head
        for follower in self.followers:
            follower.tell(head)


class Heads:
    """Of one process. `start` it on its event loop, and `close` it there."""

    def __init__(
        self, look: Callable[[Collection[str]], Mapping[str, Head]], broker_url: str, *, stopping: Callable[[], bool]
    ) -> None:
        """`look` reads the record, in a thread; those who follow are woken when `stopping` says that the server ends."""
        self.stopping = stopping
        self._read = look
        self._bell = Bell(broker_url, ENDED)
        self._runs: dict[str, _Followed] = {}
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look, as long as somebody follows. Word that is told while the broker is away is lost, and costs a pause."""
        loop = asyncio.get_running_loop()

        def heard(run_id: str) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._look_now, run_id)

        self._bell.listen(heard)
        self._looking = asyncio.create_task(self._look_on())

    async def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        await asyncio.to_thread(self._bell.close)

    @contextmanager
    def follow(self, run_id: str, *, eager: bool) -> Iterator[Follower]:
        """Follow the run with this very id, which the caller may see: its events, when `eager`, or its end alone."""
        run = self._runs.setdefault(run_id, _Followed())
        if eager:
            run.hurry()
        follower = Follower(run, eager=eager)
        run.followers.add(follower)
        self._changed.set()
        try:
            yield follower
        finally:
            run.followers.discard(follower)
            if not run.followers:
                del self._runs[run_id]

    def _look_now(self, run_id: str) -> None:
        if (run := self._runs.get(run_id)) is not None:
            run.due = 0.0
            self._changed.set()

    async def _look_on(self) -> None:
        while True:
            await self._until_due()
            now = time.monotonic()
            # Those that are only soon due come along: thousands that wait long share their looks.
            due = {run_id: run for run_id, run in self._runs.items() if run.due <= now + run.pause / 2}
            await self._look(due)
            await asyncio.sleep(time.monotonic() - now)  # at least half of the time goes to others

    async def _until_due(self) -> None:
        while True:
            self._changed.clear()
            left = min((run.due for run in self._runs.values()), default=None)
            left = None if left is None else left - time.monotonic()
            if left is not None and left <= 0:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)

    async def _look(self, due: Mapping[str, _Followed]) -> None:
        found: Mapping[str, Head] = {}
        if not self.stopping():
            try:
                found = await asyncio.to_thread(self._read, list(due))
            except Exception as exc:  # each of those who follow meets it, and tells its client
                _log.warning("the runs that are followed cannot be looked at: %s", exc)
        for run_id, run in due.items():
            run.seen(found.get(run_id))
