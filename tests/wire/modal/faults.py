"""What goes wrong on demand: each fault names an RPC, and how many of its calls it befalls."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

Kind = Literal["slow", "rate", "rate-untold", "quota", "unavailable", "denied", "expired", "lost-before", "lost-after", "cut"]
"""`slow`: answered after `seconds`. `rate`: RESOURCE_EXHAUSTED with a policy to try again after `seconds`; `rate-untold`
without one. `quota`: RESOURCE_EXHAUSTED for another reason. `unavailable`: UNAVAILABLE. `denied`: PERMISSION_DENIED.
`expired`: UNAUTHENTICATED. `lost-before`: the connection breaks before anything is done; `lost-after`: it is done, and the
connection breaks before the answer. `cut`: the connection breaks after the first message of a stream."""

ALWAYS = 1_000_000
"""As `times`: every call."""


@dataclass
class Fault:
    """One fault. `rpc` is the name of a method of either service."""

    rpc: str
    kind: Kind
    times: int = 1
    seconds: float = 0.0


class Faults:
    """Those that are set. Set from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set: list[Fault] = []

    def add(self, rpc: str, kind: Kind, *, times: int = 1, seconds: float = 0.0) -> Fault:
        """Let the next calls of this method fail."""
        fault = Fault(rpc, kind, times, seconds)
        with self._lock:
            self._set.append(fault)
        return fault

    def clear(self) -> None:
        """Let everything go well again."""
        with self._lock:
            self._set.clear()

    def take(self, rpc: str) -> Fault | None:
        """What befalls this call."""
        with self._lock:
            found = next((one for one in self._set if one.rpc == rpc and one.times > 0), None)
            if found is not None:
                found.times -= 1
            return found
