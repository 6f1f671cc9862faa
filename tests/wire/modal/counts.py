"""How many requests came, and how many bytes went: for each RPC."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass
class Count:
    """Of one RPC; bytes are those of the messages, without HTTP/2's own."""

    requests: int = 0
    received: int = 0
    sent: int = 0


class Counts:
    """Of all of them. Read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, Count] = {}

    def add(self, rpc: str, *, requests: int = 0, received: int = 0, sent: int = 0) -> None:
        """Count something."""
        with self._lock:
            count = self._of.setdefault(rpc, Count())
            count.requests += requests
            count.received += received
            count.sent += sent

    def told(self) -> dict[str, Count]:
        """What was counted since something was taken."""
        with self._lock:
            return {rpc: replace(count) for rpc, count in self._of.items()}

    def taken(self) -> dict[str, Count]:
        """What was counted since the last time."""
        with self._lock:
            counted, self._of = self._of, {}
            return counted
