"""The controller: its loops, over one database, one queue and the providers of this machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from orchestrator.controller.lead import LEAD_TTL, RENEW_EVERY, Leadership
from orchestrator.controller.loop import Loop
from orchestrator.controller.reap import REAP_DELAY, REAP_EVERY, REAP_SLOWEST, Reaper
from orchestrator.controller.recover import RECOVER_EVERY, RECOVER_SLOWEST, Recover
from orchestrator.errors import FanfoldError
from orchestrator.queue import nothing_queued, send_execute_run
from orchestrator.runs.controlling import ControlRecord
from sandboxes.providers.registry import get_provider, provider_names

if TYPE_CHECKING:
    from celery import Celery


class Controller:
    """Works between `start` and `stop`, in threads of its own.

    Any number may work over the same database: one of them leads, and recovers; each reaps what it can reach.
    """

    def __init__(self, engine: Engine, app: Celery, *, name: str, home: Path, ensure_broker: Callable[[], None]) -> None:
        """`name` is nobody else's; `home` is for providers with local state.

        `ensure_broker` makes the queue's broker answer, where this process can; it is called before the queue is used.
        """
        record = ControlRecord(engine)
        self._leadership = Leadership(record, name)
        recover = _recover(record, app, ensure_broker)
        self._loops = [
            Loop("lead", self._leadership.renew, seconds=RENEW_EVERY, slowest=LEAD_TTL / 2),
            Loop("recover", self._leadership.led(recover.look), seconds=RECOVER_EVERY, slowest=RECOVER_SLOWEST),
            *(_reaping(record, name, home) for name in provider_names()),
        ]

    def start(self) -> None:
        """Begin."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End; what is being done is finished first, for a few seconds at most."""
        for loop in self._loops:
            loop.stop(wait=False)
        for loop in self._loops:
            loop.stop()
        with suppress(FanfoldError):  # the record is away: our time as a leader runs out by itself
            self._leadership.resign()


def _recover(record: ControlRecord, app: Celery, ensure_broker: Callable[[], None]) -> Recover:
    def nudge(run_id: str) -> None:
        ensure_broker()
        send_execute_run(app, run_id)

    def queue_is_empty() -> bool:
        ensure_broker()
        return nothing_queued(app)

    return Recover(record, nudge, queue_is_empty)


def _reaping(record: ControlRecord, name: str, home: Path) -> Loop:
    reaper = Reaper(record, partial(get_provider, name, home=home))
    return Loop(f"reap {name}", reaper.look, seconds=REAP_EVERY, slowest=REAP_SLOWEST, delay=REAP_DELAY)
