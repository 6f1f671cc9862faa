"""The Celery task: it hands each run to the one event loop of this process and waits in its thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrator.queue import EXECUTE_RUN
from orchestrator.worker.runner import Runner

if TYPE_CHECKING:
    from celery import Celery

logger = logging.getLogger(__name__)


class Activity:
    """How many runs are being executed, and since when there is none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._quiet_since = time.monotonic()

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._running -= 1
            self._quiet_since = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """Seconds without any run; 0 while there is one."""
        with self._lock:
            return 0.0 if self._running else time.monotonic() - self._quiet_since


def register(
    app: Celery, runner: Runner, loop: asyncio.AbstractEventLoop, activity: Activity, free: Callable[[], None]
) -> None:
    """Give the app the code of its task; `free` is called when a run has ended here, so that there is room for another."""

    def execute_run(run_id: str) -> None:
        try:
            with activity:
                asyncio.run_coroutine_threadsafe(runner.execute(str(run_id)), loop).result()
        finally:
            free()

    app.task(name=EXECUTE_RUN)(execute_run)
