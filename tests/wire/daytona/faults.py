"""Faults on demand: what goes wrong next, and for which requests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

MINUTE: Final = 60.0


@dataclass
class Faults:
    """All that a test, or `PUT /control/faults`, can make go wrong. `only` is where: routes that begin so, as they are counted
    (`POST /api/sandbox`, `POST /toolbox/{id}/process`)."""

    only: str = ""
    delay: float = 0.0
    """Seconds before each answer."""
    rate_limited: int = 0
    """How many of the next requests are refused with 429."""
    retry_after: float | None = None
    """What `Retry-After` says then, in seconds."""
    unavailable: int = 0
    """How many of the next requests are refused with 503."""
    lost_answers: int = 0
    """How many of the next requests are carried out without an answer: the connection is cut."""
    quota: bool = False
    """Whether the organization has no room for another sandbox."""
    expired: bool = False
    """Whether the key is no longer good."""
    forbidden: bool = False
    """Whether the key may do nothing but look."""
    cut_stream_after: int | None = None
    """Bytes of output after which a terminal's connection is cut, once."""
    stream_rate: float | None = None
    """Bytes of a terminal's output that go to each client in a second, at most."""
    stuck: bool = False
    """Whether sandboxes that are created never start."""
    no_snapshots: bool = False
    """Whether a snapshot of a sandbox is refused."""
    minute: float = MINUTE
    """Seconds of a minute of all intervals."""

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self.set(asdict(Faults()))

    def set(self, values: dict[str, Any]) -> None:
        """Set some of them. Raises `ValueError` for a name that none has."""
        known = {field.name for field in fields(self)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"there is no fault {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        for name, value in values.items():
            setattr(self, name, value)

    def strikes(self, where: str) -> bool:
        """Whether a request is one of those that faults are for."""
        return where.startswith(self.only)
