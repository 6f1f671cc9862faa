"""Which provider a run counts for, and may be given: what its task asks, noted with the run, and what the caps leave of that.

A run asks for one provider, for several in an order, or for `auto`. It is put down for one of them when it is sent to a worker.
The worker that makes its sandbox may find that it has to be another one, and says so before it makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Row

from orchestrator.policy import Placed, Policy
from orchestrator.runs.changing import change_held
from orchestrator.runs.database import Database, get_run, now
from orchestrator.runs.models import Lease
from orchestrator.runs.room import Room, decides
from orchestrator.sandboxspec import AUTO, DEFAULT_PROVIDER
from sandboxes.providers.isolation import WEAKEST, Isolation, is_weaker
from sandboxes.providers.registry import known_isolation


def asked_values(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a run that tell where its task wants its sandbox. `choice` is None when it is one provider alone."""
    sandbox = spec.get("sandbox") or {}
    several, one = sandbox.get("providers"), sandbox.get("provider") or DEFAULT_PROVIDER
    asked = list(several or [one])
    weaker = sandbox.get("weaker_isolation") == "allow"
    chooses = asked == [AUTO] or len(asked) > 1
    return {"provider": asked[0], "choice": {"asked": asked, "weaker": weaker} if chooses else None}


def places(row: Row[Any], policy: Policy) -> Iterator[Placed]:
    """Where a run of the queue may be put down, the preferred place first.

    A full one is passed by here, so that what comes behind the first may not be weaker. That has to be known without the
    providers themselves: one that only tells itself counts as the weakest, and nobody takes its place here.
    """
    if row.choice is None or row.housed:
        yield Placed(row.provider, row.labels, row.housed)
        return
    first, *others = policy.candidates(row.choice["asked"])
    yield Placed(first, row.labels)
    floor = known_isolation(first)
    for name in others:
        as_strong = floor is not None and not is_weaker(known_isolation(name) or WEAKEST, floor)
        if row.choice["weaker"] or as_strong:
            yield Placed(name, row.labels)


def too_weak(name: str, isolation: Isolation, first: str, floor: Isolation) -> str | None:
    """Why a provider may not take the place of the first one that a task lists; None when it may."""
    if not is_weaker(isolation, floor):
        return None
    told = f"its isolation ({isolation}) is weaker than that of {first} ({floor})"
    return f"{told}; sandbox.weaker_isolation: allow lets it be"


class Choices(Database):
    """Says where a run's sandbox is going to be. Safe to use from many threads and many processes."""

    def __init__(self, engine: Engine, policy: Policy, clock: Callable[[], datetime] = now) -> None:
        super().__init__(engine, clock)
        self._policy = policy

    def move(self, lease: Lease, provider: str) -> bool:
        """Put a run down for this provider, if it has room for one more; False when it has none. Raises `StaleLease`."""
        with self._writing() as connection:
            decides(connection, wait=True)
            run = get_run(connection, lease.run_id)
            if run.provider != provider and not Room.of_caps(connection, self._policy).has_place_at(provider):
                return False
            change_held(connection, lease, {"provider": provider})
            return True
