"""Requests that wait for the end of a run, woken by word through the broker."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestrator.wake import ENDED, Bell


class Ends:
    """Of one process: it listens once, however many wait. Used on one event loop; `close` it from any thread."""

    def __init__(self, broker_url: str) -> None:
        self._bell = Bell(broker_url, ENDED)
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def listen(self) -> None:
        """Begin to listen. What is told while the broker is away is lost: who waits has to look now and then."""
        loop = asyncio.get_running_loop()

        def heard(run_id: str) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake, run_id)

        self._bell.listen(heard)

    def close(self) -> None:
        """Listen no more."""
        self._bell.close()

    @contextmanager
    def of(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when word comes that the run has ended."""
        ended = asyncio.Event()
        self._waiting[run_id].add(ended)
        try:
            yield ended
        finally:
            self._waiting[run_id].discard(ended)
            if not self._waiting[run_id]:
                del self._waiting[run_id]

    def _wake(self, run_id: str) -> None:
        for ended in self._waiting.get(run_id, ()):
            ended.set()
