"""The platforms of the wire servers alike: what a test of runs asks of either of them, and what it lets go wrong there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.wire.daytona.server import WireServer as DaytonaServer
from tests.wire.modal.faults import ALWAYS
from tests.wire.modal.server import WireServer as ModalServer


@dataclass(frozen=True)
class Cloud:
    """A platform."""

    name: str
    created: Callable[[], int]
    """How many sandboxes were asked for up to now, forks among them."""
    there: Callable[[], list[str]]
    """Sandboxes, and snapshots, that somebody pays for."""
    away: Callable[[], AbstractContextManager[None]]
    """For a while it does not answer."""
    full: Callable[[], AbstractContextManager[None]]
    """For a while the account has no room for another sandbox."""
    losing: Callable[[], AbstractContextManager[None]]
    """For a while sandboxes are made, and nobody is told of it."""


def modal(server: ModalServer) -> Cloud:
    """Modal's."""

    def created() -> int:
        asked = server.counts.told().get("SandboxCreateV2")
        return asked.requests if asked else 0

    def there() -> list[str]:
        kept = [id_ for id_, one in server.fleet.images.items() if one.expires_at is not None]
        return [*(one.name for one in server.sandboxes()), *kept]

    @contextlib.contextmanager
    def faulty(**kinds: str) -> Iterator[None]:
        for rpc, kind in kinds.items():
            server.faults.add(rpc, kind, times=ALWAYS)  # type: ignore[arg-type]
        try:
            yield
        finally:
            server.faults.clear()

    return Cloud(
        "modal",
        created,
        there,
        away=server.silent,
        full=lambda: faulty(SandboxCreateV2="quota"),
        losing=lambda: faulty(SandboxCreateV2="lost-after", SandboxGetFromNameV2="unavailable", SandboxListV2="unavailable"),
    )


def daytona(server: DaytonaServer) -> Cloud:
    """Daytona's."""

    def created() -> int:
        made = ("POST /api/sandbox", "POST /api/sandbox/{id}/fork")
        return sum(count["requests"] for route, count in server.tally.told().items() if route in made)

    def there() -> list[str]:
        boxes = [one.name for one in server.world.boxes.values() if one.state not in ("destroyed", "destroying")]
        return [*boxes, *(one.name for one in server.world.kept.values())]

    @contextlib.contextmanager
    def faulty(**faults: int | bool) -> Iterator[None]:
        server.faults.set(faults)
        try:
            yield
        finally:
            server.faults.clear()

    return Cloud(
        "daytona",
        created,
        there,
        away=lambda: faulty(unavailable=ALWAYS),
        full=lambda: faulty(quota=True),
        losing=lambda: faulty(lost_answers=ALWAYS),
    )
