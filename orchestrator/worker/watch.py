"""Watching over one run while it is executed: heartbeats to the record, and word from it that the run has to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from orchestrator.errors import InfrastructureError, RunCancelled, StaleLease
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease
from orchestrator.runs.store import Store

logger = logging.getLogger(__name__)

CANCEL_POLL = 0.2
"""Seconds between two looks whether somebody wants the run to stop."""
HEARTBEAT = 1.0
"""Seconds between two heartbeats."""


class Handover(Exception):
    """This worker leaves: another one goes on with the run."""


StopReason = RunCancelled | StaleLease | Handover


class Watch:
    """Beats until it is closed, also while a stopped run is cleaned up: a lease must not run out under that."""

    def __init__(
        self, store: Store, lease: Lease, *, look_every: float = CANCEL_POLL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`look_every` is how many seconds may pass until word to stop is heard."""
        self._look_every = look_every
        self.stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        """Done when the run has to stop: why."""
        self._store = store
        self._lease = lease
        self._clock = clock
        self._beaten = clock()
        self._task = asyncio.create_task(self._beat_on())

    def hand_over(self) -> None:
        """Let the run go to another worker."""
        self.stop(Handover("the worker leaves"))

    def stop(self, reason: StopReason) -> None:
        """Have the run stop for this reason; the first one counts."""
        if not self.stopped.done():
            self.stopped.set_result(reason)

    async def close(self) -> None:
        """End the heartbeats."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self.stopped.cancel()

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._look_every)  # first: the claim was a heartbeat
            try:
                await self._beat()
            except StaleLease as exc:
                self.stop(exc)
                return
            except InfrastructureError as exc:
                # The record may be away for a moment; without it for as long as a lease lasts, the run is not ours any more.
                logger.warning("%s: no heartbeat: %s", self._lease.run_id, exc)
                if self._clock() - self._beaten > LEASE_TTL:
                    self.stop(StaleLease(f"run {self._lease.run_id}: no heartbeat reached the record for {LEASE_TTL:g} s"))

    async def _beat(self) -> None:
        if self._clock() - self._beaten < HEARTBEAT:
            cancelled = await asyncio.to_thread(self._store.cancel_requested, self._lease.run_id)
        else:
            cancelled = await asyncio.to_thread(self._store.heartbeat, self._lease)
            self._beaten = self._clock()
        if cancelled:
            self.stop(RunCancelled(f"run {self._lease.run_id} was cancelled"))
