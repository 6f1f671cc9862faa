"""Sending runs that wait to workers as these can take them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from orchestrator.runs.dispatching import AT_ONCE, Dispatching, Send

DISPATCH_EVERY = 0.5
"""Seconds between two looks of the leader, when nobody has called for one."""
DISPATCH_SLOWEST = 2.0
"""Seconds between two tries, at most, while the record or the broker is away."""


class Dispatcher:
    """Looks once each time it is called: always as the leader, otherwise when this process has a reason of its own.

    Decisions come one after the other whoever makes them, so that who leads is only a matter of who takes the trouble.
    """

    def __init__(
        self, queue: Dispatching, send: Callable[[Send], None], *, leads: Callable[[], bool], ready: Callable[[], None]
    ) -> None:
        """`ready` makes the broker answer, or raises: nothing is decided that cannot be sent."""
        self._queue = queue
        self._send = send
        self._leads = leads
        self._ready = ready
        self._asked = threading.Event()
        self._asked.set()  # who has just come up brings room for runs that wait

    def ask(self) -> None:
        """Have the next look be made whoever leads."""
        self._asked.set()

    def look(self) -> None:
        """Send what can be sent. Raises `InfrastructureError` when the record or the broker is not there."""
        if not self._asked.is_set() and not self._leads():
            return
        self._asked.clear()
        while self._queue.anything_waits():
            self._ready()
            sends = self._queue.dispatch(AT_ONCE)
            for send in sends:
                self._send(send)
            if len(sends) < AT_ONCE:
                return
