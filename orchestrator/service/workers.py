"""The workers of an installation, and having one on this machine."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from orchestrator.errors import WorkerUnavailable
from orchestrator.locks import file_lock
from orchestrator.runs.models import WorkerInfo
from orchestrator.service.installation import Installation

WORKER_START_TIMEOUT = 30.0
"""Seconds for a worker that was started on demand to say that it is alive."""
WORKER_POLL = 0.05
"""Seconds between two looks for it."""
MAX_LOG_TAIL = 2000
"""Bytes of the worker's log that an error shows."""


class Workers:
    """Who executes runs."""

    def __init__(self, installation: Installation) -> None:
        self._of = installation

    def alive(self) -> list[WorkerInfo]:
        """The workers that are alive, the oldest first."""
        return self._of.store.workers()

    def ensure(self) -> WorkerInfo:
        """See `Service.ensure_worker`."""
        if alive := self.alive():
            return alive[0]
        lock = self._of.settings.home / "worker.lock"
        with file_lock(lock, timeout=WORKER_START_TIMEOUT * 2, why="a worker is being started"):
            if alive := self.alive():
                return alive[0]
            return self._start()

    def _start(self) -> WorkerInfo:
        self._of.broker.ensure()
        log = self._of.settings.worker_log
        idle = str(self._of.settings.worker_idle_exit)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "orchestrator.worker", "--idle-exit", idle],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._of.settings.home,
                start_new_session=True,  # the terminal's Ctrl-C is not for it
            )
        deadline = time.monotonic() + WORKER_START_TIMEOUT
        while not (alive := self.alive()):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise WorkerUnavailable(f"no worker came up; the end of {log} says:\n{_tail(log)}")
            time.sleep(WORKER_POLL)
        process.returncode = 0  # it is detached on purpose: nobody waits for it
        return alive[0]


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MAX_LOG_TAIL))
        return file.read(MAX_LOG_TAIL).decode(errors="replace").strip()
