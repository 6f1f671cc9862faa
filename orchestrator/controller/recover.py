"""Finding runs that no worker will come for by itself, and nudging one.

Two things lose a nudge: a worker that dies holds the message that told it of its run, and a broker that is restarted knows
nothing. The record knows every run, so nothing else is lost. A nudge too many does no harm: the worker's claim fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from orchestrator.runs.controlling import ControlRecord, WaitingRun

logger = logging.getLogger(__name__)

RECOVER_EVERY = 0.5
"""Seconds between two looks."""
RECOVER_SLOWEST = 2.0
"""Seconds between two tries, at most, while the record or the broker is away."""
ON_ITS_WAY = 1.0
"""Seconds that a new run's own nudge may need from the record to a worker."""
STARVED = 60.0
"""Seconds after which a pending run is nudged again although the queue is not empty: a dead worker may hold its nudge."""
AGAIN_FIRST = 2.0
"""Seconds until a run that still waits is nudged once more; twice as long each time."""
AGAIN_LATEST = 60.0
"""Seconds between two nudges, at most."""


class Recover:
    """Looks once each time it is called. `nudge` puts a run on the queue, `nothing_queued` says whether the queue is empty."""

    def __init__(
        self,
        record: ControlRecord,
        nudge: Callable[[str], None],
        nothing_queued: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._record = record
        self._nudge = nudge
        self._nothing_queued = nothing_queued
        self._clock = clock
        self._nudged: dict[WaitingRun, tuple[float, float]] = {}
        """When each run is to be nudged again, and how long that was put off."""

    def look(self) -> None:
        """Nudge what has to be. Raises `InfrastructureError` when the record or the broker is not there."""
        self._forget_the_old()
        for run in self._due(self._record.lost_runs()):
            logger.warning("%s: its worker has died (claim %d); another one is called", run.id, run.claims)
            self._send(run)
        # Most of the time nothing is pending for so long, and then the broker is not asked.
        if waiting := self._record.pending_runs(older_than=ON_ITS_WAY):
            if not self._nothing_queued():
                waiting = self._record.pending_runs(older_than=STARVED)
            for run in self._due(waiting):
                self._send(run)

    def _due(self, runs: Iterable[WaitingRun]) -> list[WaitingRun]:
        moment = self._clock()
        return [run for run in runs if run not in self._nudged or self._nudged[run][0] <= moment]

    def _send(self, run: WaitingRun) -> None:
        self._nudge(run.id)
        _, last = self._nudged.get(run, (0.0, AGAIN_FIRST / 2))
        pause = min(last * 2, AGAIN_LATEST)
        self._nudged[run] = (self._clock() + pause, pause)

    def _forget_the_old(self) -> None:
        limit = self._clock() - AGAIN_LATEST
        self._nudged = {run: (due, pause) for run, (due, pause) in self._nudged.items() if due > limit}
