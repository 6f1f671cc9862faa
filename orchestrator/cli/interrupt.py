"""Ctrl-C: the first one asks for the run to be cancelled, the second one leaves at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While it is entered, SIGINT and SIGTERM call `cancel` once, in a thread of its own.

    The main thread goes on with what it does: it follows the run until the run is really over, sandbox destroyed. The
    cancelling itself must not run inside a signal handler, which may interrupt the main thread anywhere, inside a
    database call too. A second signal raises `KeyboardInterrupt`.
    """

    def __init__(self, cancel: Callable[[], object], announce: Callable[[str], None]) -> None:
        self._cancel = cancel
        self._announce = announce
        self._previous: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None
        """Why the run could not be cancelled, when it could not."""

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._thread is not None

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._thread is not None:
            raise KeyboardInterrupt
        self._thread = threading.Thread(target=self._run, name="fanfold-cancel", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._announce("cancelling: the command is killed and the sandbox destroyed (again to leave at once)")
        try:
            self._cancel()
        except Exception as exc:
            self.error = exc
            self._announce(f"the run could not be cancelled: {exc}")
