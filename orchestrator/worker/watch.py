"""Watching over runs while they are executed: heartbeats to the record, and word from it that one has to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from orchestrator.errors import RunCancelled, StaleLease
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease
from orchestrator.runs.store import Store

logger = logging.getLogger(__name__)

CANCEL_POLL = 0.2
"""Seconds between two looks whether somebody wants a run to stop."""
HEARTBEAT = 1.0
"""Seconds between two heartbeats."""


class Handover(Exception):
    """This worker leaves: another one goes on with the run."""


StopReason = RunCancelled | StaleLease | Handover


class Watch:
    """Over one run, until it is closed, also while a stopped run is cleaned up: a lease must not run out under that."""

    def __init__(self, pulse: Pulse, lease: Lease) -> None:
        self.stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        """Done when the run has to stop: why."""
        self._loop = asyncio.get_running_loop()
        self._pulse = pulse
        self._lease = lease

    def hand_over(self) -> None:
        """Let the run go to another worker."""
        self.stop(Handover("the worker leaves"))

    def stop(self, reason: StopReason) -> None:
        """Have the run stop for this reason; the first one counts."""
        if not self.stopped.done():
            self.stopped.set_result(reason)

    def stop_soon(self, reason: StopReason) -> None:
        """The same, from another thread."""
        with suppress(RuntimeError):  # the loop is closed: nothing is executed any more
            self._loop.call_soon_threadsafe(self.stop, reason)

    def close(self) -> None:
        """End the heartbeats."""
        self._pulse.forget(self._lease)
        self.stopped.cancel()


class Pulse:
    """Beats for all runs of a worker at once, in a thread of its own.

    Neither its event loop nor its other threads, which may be busy with many children, keep a heartbeat waiting until a lease
    is over.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._watches: dict[Lease, Watch] = {}
        self._beaten: dict[Lease, float] = {}
        """When a heartbeat has reached the record; a claim is one."""
        self._last = clock()
        self._thread: threading.Thread | None = None

    def watch(self, lease: Lease) -> Watch:
        """Begin to beat for a run that was claimed."""
        watch = Watch(self, lease)
        with self._lock:
            self._watches[lease], self._beaten[lease] = watch, self._clock()
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat_on, name="pulse", daemon=True)
                self._thread.start()
        return watch

    def forget(self, lease: Lease) -> None:
        """Beat no more for a run."""
        with self._lock:
            self._watches.pop(lease, None)
            self._beaten.pop(lease, None)

    def _beat_on(self) -> None:
        while True:
            time.sleep(CANCEL_POLL)  # first: the claim was a heartbeat
            with self._lock:
                if not self._watches:
                    self._thread = None
                    return
                watches = dict(self._watches)
            try:
                self._beat(watches)
            except Exception as exc:  # the record may be away for a moment; whatever it is, this thread has to go on
                logger.warning("no heartbeat: %s", exc)
                self._give_up(watches)

    def _beat(self, watches: dict[Lease, Watch]) -> None:
        if self._clock() - self._last < HEARTBEAT:
            asked = self._store.cancels_requested([lease.run_id for lease in watches])
            cancelled = [lease for lease in watches if lease.run_id in asked]
        else:
            held = self._store.heartbeats(watches)
            self._last = self._clock()
            cancelled = [lease for lease, asked in held.items() if asked]
            self._note(held)
            for lease in watches.keys() - held.keys():
                self._stop(watches[lease], lease, f"the lease {lease.token} of {lease.worker} is over")
        for lease in cancelled:
            watches[lease].stop_soon(RunCancelled(f"run {lease.run_id} was cancelled"))

    def _note(self, held: dict[Lease, bool]) -> None:
        with self._lock:
            self._beaten |= {lease: self._last for lease in held if lease in self._watches}

    def _give_up(self, watches: dict[Lease, Watch]) -> None:
        """Without the record for as long as a lease lasts, a run is not ours any more."""
        with self._lock:
            late = [lease for lease, beaten in self._beaten.items() if self._clock() - beaten > LEASE_TTL]
        for lease in late:
            if lease in watches:
                self._stop(watches[lease], lease, f"no heartbeat reached the record for {LEASE_TTL:g} s")

    def _stop(self, watch: Watch, lease: Lease, why: str) -> None:
        self.forget(lease)
        watch.stop_soon(StaleLease(f"run {lease.run_id}: {why}"))
