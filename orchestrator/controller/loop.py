"""One thing that is done again and again, in a thread of its own, whatever happens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from orchestrator.errors import FanfoldError
from sandboxes.errors import FanfoldSandboxError

logger = logging.getLogger(__name__)

STOP_TIMEOUT = 5.0
"""Seconds that the last round has to end; all of a controller's have them together."""
_EXPECTED = (FanfoldError, FanfoldSandboxError)
"""What says enough in its message; of anything else the log has the traceback."""


class Loop:
    """Calls `work` every `seconds`, for the first time after `delay`.

    A round that fails is told once, and tried again less and less often: `slowest` is the longest pause in seconds.
    """

    def __init__(self, name: str, work: Callable[[], None], *, seconds: float, slowest: float, delay: float = 0.0) -> None:
        self._name = name
        self._seconds, self._slowest, self._delay = seconds, slowest, delay
        self._work = work
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._complaint = ""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, within: float = STOP_TIMEOUT) -> None:
        """No round begins any more; wait `within` seconds for the last one. A loop that was never started is no error."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(max(0.0, within))

    def wake(self) -> None:
        """Begin the next round at once."""
        self._woken.set()

    def _run(self) -> None:
        pause = self._delay
        while not self._stopping.is_set():
            self._woken.wait(pause)
            self._woken.clear()
            if self._stopping.is_set():
                return
            pause = self._seconds if self._round() else min(max(pause, self._seconds) * 2, self._slowest)

    def _round(self) -> bool:
        try:
            self._work()
        except Exception as exc:  # a controller is left alone: nothing ends it but who started it
            self._complain(exc)
            return False
        if self._complaint:
            logger.info("%s: works again", self._name)
        self._complaint = ""
        return True

    def _complain(self, exc: Exception) -> None:
        complaint = f"{type(exc).__name__}: {exc}"
        if complaint != self._complaint:
            logger.warning("%s: %s", self._name, complaint, exc_info=None if isinstance(exc, _EXPECTED) else exc)
        self._complaint = complaint
