"""Doing operations, as many at once as are wanted or as often as is wanted, and measuring each."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from infra.load.operations import Failed

MAX_BEHIND = 10_000
"""Operations that may be due and not ended, with a rate: beyond them the load has no end, and is given up."""


class Overrun(Exception):
    """The API does not keep up with the rate that was asked for."""


@dataclass
class Measured:
    """What became of the operations of one name."""

    seconds: list[float] = field(default_factory=list)
    """Of those that succeeded."""
    errors: Counter[str] = field(default_factory=Counter)
    """How many failed, by what they failed with."""

    def percentile(self, share: float) -> float:
        """At most so many seconds did this share of the successful ones take; NaN when there was none."""
        ordered = sorted(self.seconds)
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else float("nan")


@dataclass(frozen=True)
class Load:
    """What is done for how long: so many at once (`concurrency`), or so many a second (`rate`), however long they take."""

    seconds: float
    mix: Mapping[str, int]
    concurrency: int = 16
    rate: float | None = None


Named = Callable[[str], Callable[[], Awaitable[None]]]


class Generator:
    """One load. `taken` are the seconds from its begin to the end of its last operation."""

    def __init__(self, load: Load, named: Named) -> None:
        self._load = load
        self._named = named
        self.taken = 0.0
        self.measured: dict[str, Measured] = defaultdict(Measured)

    async def run(self) -> dict[str, Measured]:
        """Do it. Raises `Overrun`."""
        began = time.perf_counter()
        await (self._at_rate(self._load.rate) if self._load.rate else self._at_once())
        self.taken = time.perf_counter() - began
        return dict(self.measured)

    async def _at_once(self) -> None:
        end = time.perf_counter() + self._load.seconds

        async def again() -> None:
            while (begin := time.perf_counter()) < end:
                await self._one(begin)

        await asyncio.gather(*(again() for _ in range(self._load.concurrency)))

    async def _at_rate(self, rate: float) -> None:
        """An operation counts from when it was due: one that the load itself comes late to is late for its user as well."""
        began, going = time.perf_counter(), set[asyncio.Task[None]]()
        try:
            for number in range(max(1, round(self._load.seconds * rate))):
                due = began + number / rate
                if (early := due - time.perf_counter()) > 0:
                    await asyncio.sleep(early)
                task = asyncio.create_task(self._one(due))
                going.add(task)
                task.add_done_callback(going.discard)
                if len(going) > MAX_BEHIND:
                    raise Overrun(f"{len(going)} requests wait: the API does not keep up with {rate:g} a second")
            await asyncio.gather(*going)
        finally:
            for task in going:
                task.cancel()

    async def _one(self, begin: float) -> None:
        (name,) = random.choices(list(self._load.mix), list(self._load.mix.values()))
        try:
            await self._named(name)()
        except Failed as exc:
            self.measured[name].errors[str(exc)] += 1
        else:
            self.measured[name].seconds.append(time.perf_counter() - begin)
