"""The controller: its loops, over one database, one queue and the providers of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from orchestrator.controller.dispatch import DISPATCH_EVERY, DISPATCH_SLOWEST, Dispatcher
from orchestrator.controller.errands import Errands
from orchestrator.controller.expire import EXPIRE_EVERY, EXPIRE_SLOWEST, Expiry
from orchestrator.controller.lead import LEAD_TTL, RENEW_EVERY, Leadership
from orchestrator.controller.loop import STOP_TIMEOUT, Loop
from orchestrator.controller.reap import REAP_DELAY, REAP_EVERY, REAP_SLOWEST, Reaper
from orchestrator.controller.recover import RECOVER_EVERY, RECOVER_SLOWEST, Recover
from orchestrator.errors import FanfoldError
from orchestrator.policy import Policy
from orchestrator.queue import nothing_queued, send_execute_run
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.dispatching import Dispatching, Send
from orchestrator.telemetry.metrics import Metrics
from orchestrator.wake import WAITS, Bell
from sandboxes.providers.registry import get_provider, has_key, provider_names

if TYPE_CHECKING:
    from celery import Celery


class Controller:
    """Works between `start` and `stop`, in threads of its own.

    Any number may work over the same database: one of them leads, and recovers; each reaps what it can reach. Each sends
    runs that wait to workers when it has a reason to (see `wake`), and the leader in any case.
    """

    def __init__(
        self,
        engine: Engine,
        app: Celery,
        *,
        name: str,
        home: Path,
        policy: Policy,
        ensure_broker: Callable[[], None],
        metrics: Metrics | None = None,
        errands: Errands | None = None,
    ) -> None:
        """`name` is nobody else's; `home` is for providers with local state.

        `ensure_broker` makes the queue's broker answer, where this process can; it is called before the queue is used.
        `metrics` counts what it does. Schedules and webhooks are looked after when there are `errands`.
        """
        metrics = metrics or Metrics()
        record = ControlRecord(engine)
        self._leadership = Leadership(record, name)
        self._queue = queue = _Queue(app, Dispatching(engine, policy), policy, ensure_broker)
        recover = Recover(record, queue.nudge, queue.is_empty)
        leads = partial(getattr, self._leadership, "held")
        self._dispatcher = Dispatcher(queue.record, queue.send, leads=leads, ready=ensure_broker)
        self._dispatch = Loop("dispatch", self._dispatcher.look, seconds=DISPATCH_EVERY, slowest=DISPATCH_SLOWEST)
        self._bell = Bell(str(app.conf.broker_url), WAITS)
        expiry = Expiry(record, queue.nudge)
        self._loops = [
            Loop("lead", self._leadership.renew, seconds=RENEW_EVERY, slowest=LEAD_TTL / 2),
            Loop("recover", self._leadership.led(recover.look), seconds=RECOVER_EVERY, slowest=RECOVER_SLOWEST),
            Loop("expire", self._leadership.led(expiry.look), seconds=EXPIRE_EVERY, slowest=EXPIRE_SLOWEST),
            self._dispatch,
            # Without a key nothing of ours is found there, and an SDK takes a second and much memory to be imported.
            *(_reaping(record, name, home, metrics) for name in provider_names() if has_key(name)),
            *(errands.loops(engine, self._leadership) if errands else ()),
        ]

    def start(self) -> None:
        """Begin."""
        for loop in self._loops:
            loop.start()
        self._bell.listen(lambda _: self._dispatch.wake())

    def nudge(self, run_id: str) -> None:
        """Call a worker for a run that was sent already. Raises `InfrastructureError`."""
        self._queue.nudge(run_id)

    def wake(self) -> None:
        """Send what waits, if it can be sent now: a run has ended here, or there is a new one."""
        self._dispatcher.ask()
        self._dispatch.wake()

    def stop(self) -> None:
        """End; what is being done is finished first, for a few seconds at most."""
        end = time.monotonic() + STOP_TIMEOUT
        for loop in self._loops:
            loop.stop(within=0)
        for loop in self._loops:
            loop.stop(within=end - time.monotonic())
        self._bell.close()
        with suppress(FanfoldError):  # the record is away: our time as a leader runs out by itself
            self._leadership.resign()


class _Queue:
    """The broker's queues, as the policy has them."""

    def __init__(self, app: Celery, record: Dispatching, policy: Policy, ensure_broker: Callable[[], None]) -> None:
        self.record = record
        self._app = app
        self._policy = policy
        self._ensure_broker = ensure_broker

    def send(self, send: Send) -> None:
        """Send a nudge. Raises `InfrastructureError`."""
        send_execute_run(self._app, send.run_id, send.queue)

    def nudge(self, run_id: str) -> None:
        """Send one to the queue that the run belongs on."""
        self._ensure_broker()
        for send in self.record.queue_of([run_id]):
            self.send(send)

    def is_empty(self) -> bool:
        """Whether no nudge waits for a worker."""
        self._ensure_broker()
        return nothing_queued(self._app, self._policy.queues)


def _reaping(record: ControlRecord, name: str, home: Path, metrics: Metrics) -> Loop:
    reaper = Reaper(record, partial(get_provider, name, home=home), metrics.sandbox_reaped)
    return Loop(f"reap {name}", reaper.look, seconds=REAP_EVERY, slowest=REAP_SLOWEST, delay=REAP_DELAY)
