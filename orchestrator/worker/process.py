"""A worker process: Celery takes messages in the main thread, one event loop in another thread executes the runs.

It brings a controller of its own, so that a worker that is alone needs nobody else.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import os
import secrets
import signal
import socket
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from celery import signals

from orchestrator.broker import Broker
from orchestrator.controller.control import Controller
from orchestrator.controller.errands import Errands
from orchestrator.errors import FanfoldError
from orchestrator.policy import load_policy
from orchestrator.queue import QUEUE, make_app
from orchestrator.runs.models import WorkerInfo
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store, now
from orchestrator.service import Service
from orchestrator.service.schedules import submitter
from orchestrator.settings import Settings
from orchestrator.telemetry.process import Telemetry
from orchestrator.wake import ENDED, Bell
from orchestrator.worker.execution import STOP_TIMEOUT
from orchestrator.worker.runner import Runner
from orchestrator.worker.tasks import Activity, register
from sandboxes.providers.registry import shortcomings

logger = logging.getLogger(__name__)

HEARTBEAT = 2.0
"""Seconds between two signs of life."""
IDLE_AFTER = 1.0
"""Seconds without a run after which a worker has time for importing what agent runs need."""
THREADS = 16
"""Threads for what waits for the record, disks and processes; a run may have many children at work."""
POLL = 0.25
"""Seconds between two looks whether any of this is due."""
AGENT_MODULE = "orchestrator.agent.run"


class _Every:
    """Something that is due once, and then each `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic()

    def is_due(self) -> bool:
        """Whether it is due now; then it is not until its time has passed again."""
        moment = time.monotonic()
        if moment < self._next:
            return False
        self._next = moment + self._seconds
        return True


class WorkerProcess:
    """Runs until it is told to stop (SIGTERM, SIGINT: the runs at work are handed to other workers), or has been idle."""

    def __init__(
        self, settings: Settings, *, concurrency: int, idle_exit: float | None, queues: Sequence[str] = (QUEUE,),
        telemetry: Telemetry | None = None,
    ) -> None:
        """`queues` are those that it takes runs from. Raises `BadInput` for a name that cannot be one."""
        self._broker = Broker(settings)
        engine = open_database(settings.database, settings.home / "database.lock")
        self._store = Store(engine)
        host, pid, moment = socket.gethostname()[:100], os.getpid(), now()
        telemetry = telemetry or Telemetry()
        name = f"{host}:{pid}:{secrets.token_hex(3)}"
        self._info = WorkerInfo(name, host, pid, concurrency, moment, moment, list(queues), shortcomings())
        self._queues = queues
        self._idle_exit = idle_exit
        self._activity = Activity()
        self._ready, self._leaving = threading.Event(), threading.Event()
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="work"))
        self._app = make_app(self._broker.url)
        self._service = Service(settings)
        self._controller = Controller(
            engine,
            self._app,
            name=self._info.id,
            home=settings.home,
            policy=load_policy(settings.policy),
            ensure_broker=self._broker.ensure,
            errands=Errands(settings, submitter(self._service)),
            metrics=telemetry.metrics,
        )
        self._ends = Bell(self._broker.url, ENDED)
        self._runner = Runner(
            settings, self._store, self._info.id, nudge=self._controller.nudge, tell=self._ends.ring, telemetry=telemetry
        )
        register(self._app, self._runner, self._loop, self._activity, self._controller.wake)

    def run(self) -> None:
        """Work. Raises `FanfoldError` when there is no broker or no record."""
        self._store.worker_alive(self._info)  # before the broker: a worker that leaves must see us, or it would stop it
        threads = [
            threading.Thread(target=self._loop.run_forever, name="runs", daemon=True),
            threading.Thread(target=self._show_life, name="life", daemon=True),
        ]
        try:
            self._broker.ensure(surely=True)
            for thread in threads:
                thread.start()
            self._controller.start()
            self._consume()
        finally:
            self._leave()
            self._controller.stop()
            self._stop_loop()
            for thread in threads:
                if thread.is_alive():
                    thread.join(HEARTBEAT)
            self._broker.stop(unless=lambda: bool(self._store.workers()))
            self._ends.close()
            self._service.close()
            self._store.close()

    def _consume(self) -> None:
        """Take messages until a signal says stop; then wait until the runs at work are handed over."""
        # Celery warns of workers of the superuser, since a message could carry code. Ours carry ids in JSON.
        warnings.filterwarnings("ignore", module=r"celery\.(apps|platforms)")
        signals.setup_logging.connect(_leave_logging, weak=False)
        signals.worker_ready.connect(lambda **_: self._ready.set(), weak=False)  # from now on it knows what to do with signals
        signals.worker_shutting_down.connect(self._on_shutting_down, weak=False)
        worker = self._app.Worker(
            pool="threads",
            concurrency=self._info.concurrency,
            queues=list(self._queues),
            hostname=f"fanfold@{self._info.id}",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            loglevel="INFO",
            quiet=True,
        )
        logger.info("worker %s: up to %d runs at once", self._info.id, self._info.concurrency)
        worker.start()

    def _on_shutting_down(self, **_: object) -> None:
        self._leave()
        self._loop.call_soon_threadsafe(self._runner.hand_over)

    def _leave(self) -> None:
        """From now on nobody counts on this worker."""
        self._leaving.set()
        with suppress(FanfoldError):  # the record is away: our last sign of life will grow old
            self._store.worker_gone(self._info.id)

    def _show_life(self) -> None:
        beat, warm_up = _Every(HEARTBEAT), _Every(math.inf)
        while not self._leaving.wait(POLL):
            idle = self._activity.idle_seconds
            try:
                if beat.is_due():
                    self._beat()
                if idle > IDLE_AFTER and warm_up.is_due():
                    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
                if self._idle_exit is not None and self._ready.is_set() and idle > self._idle_exit and self._may_leave():
                    os.kill(os.getpid(), signal.SIGTERM)
                    return
            except FanfoldError as exc:
                logger.warning("no sign of life: %s", exc)

    def _beat(self) -> None:
        if not self._leaving.is_set():
            self._store.worker_alive(replace(self._info, heartbeat_at=now()))

    def _may_leave(self) -> bool:
        """Whether no run waits. Who submits a run records it first and looks for a worker then; we do it the other way."""
        self._store.worker_gone(self._info.id)
        if not self._store.unclaimed():
            return True
        self._beat()
        return False

    def _stop_loop(self) -> None:
        """End the event loop; runs that are still at work (a second signal came) are stopped and left to another worker."""
        if not self._loop.is_running():
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result(STOP_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)


def _leave_logging(**_: object) -> None:
    """Logging is set up already; Celery does so itself where nobody answers this signal."""


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


def _warm_up() -> None:
    try:
        importlib.import_module(AGENT_MODULE)
    except Exception:  # an agent run will say what is wrong; command runs do not need it
        logger.exception("what agent runs need cannot be imported")
