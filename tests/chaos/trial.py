"""One trial: a world, its runs, its monkey, and the audit; and what it tells of itself."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.agents import Work, make_works
from tests.chaos.audit import Findings, audit
from tests.chaos.load import Load
from tests.chaos.monkey import Disturbance, Monkey, schedule
from tests.chaos.world import Size, World, making, wait_until

SETTLE = 180.0
"""Seconds for the last run to end when nothing is disturbed any more."""
REAPED = 60.0
"""Seconds for the last sandbox to be gone after that."""


@dataclass(frozen=True)
class Plan:
    """What a trial is made of. The same plan disturbs in the same way at the same times."""

    seed: int
    runs: int
    seconds: float
    """For how long runs are submitted and disturbed."""
    every: float
    """Seconds between two disturbances, on average."""
    size: Size = field(default_factory=Size)
    provider: str = "local"
    kinds: tuple[str, ...] = ()
    """Beginnings of the names of the disturbances that there are; all, when there are none here."""

    def works(self) -> list[Work]:
        """Its runs."""
        return make_works(self.runs, random.Random(self.seed), provider=self.provider)

    def disturbances(self) -> list[Disturbance]:
        """Its disturbances."""
        return schedule(random.Random(self.seed + 1), self.seconds, every=self.every, kinds=self.kinds)


@dataclass(frozen=True)
class Report:
    """How a trial went."""

    plan: Plan
    findings: Findings
    disturbances: Counter[str]
    starts: int
    """Starts of processes beyond the first ones."""
    repeated: int
    """Requests that had to be repeated."""
    chaos: float
    settled: float
    """Seconds from the end of the disturbances to the end of the last run."""
    whole: float

    def __str__(self) -> str:
        found, gaps = self.findings, sorted(self.findings.gaps)
        lines = [
            f"seed {self.plan.seed}: {sum(found.statuses.values())} runs: {_counted(found.statuses)}",
            f"disturbances: {sum(self.disturbances.values())}: {_counted(self.disturbances)}",
            f"processes started again: {self.starts}; requests repeated: {self.repeated}",
            f"attempts: {sum(found.attempts.values())}: {_counted(found.attempts)}",
            f"sandboxes adopted: {found.adopted}; runs begun again: {found.begun_again}; ledger lines: {found.ledger_lines}",
            f"from a lost worker's last sign of life to the next worker: {_spread(gaps)}",
            f"disturbed for {self.chaos:.0f} s, all ended {self.settled:.1f} s later, all in all {self.whole:.0f} s",
            f"breaches: {len(found.breaches)}",
            *found.breaches,
        ]
        return "\n".join(lines)


def carry_out(plan: Plan, *, logs: Path | None = None) -> Report:
    """Carry out a trial; the processes' logs are left in `logs`."""
    began = time.monotonic()
    with making(plan.size, folder=logs) as world:
        load = Load(world, plan.works(), plan.seconds)
        try:
            return _carried_out(plan, world, load, began)
        finally:
            load.close()


def _carried_out(plan: Plan, world: World, load: Load, began: float) -> Report:
    monkey, start = Monkey(world, plan.disturbances()), time.monotonic()
    load.begin()
    monkey.run()
    healed = time.monotonic()
    load.finish()
    wait_until(lambda: _ended(world, load), "every run has ended", SETTLE)
    settled = time.monotonic() - healed
    gone = time.monotonic() + REAPED
    while time.monotonic() < gone and (world.sandboxes(plan.provider) or any(node.stuck() for node in world.nodes)):
        time.sleep(0.2)
    findings = audit(world, load)
    starts = sum(node.starts - 1 for node in world.nodes)
    whole = time.monotonic() - began
    return Report(plan, findings, monkey.done, starts, load.repeated, healed - start, settled, whole)


def _ended(world: World, load: Load) -> bool:
    return all(run.status.terminal for run in world.service.list(limit=10 * len(load.works)))


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])) or "none"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "none was lost"
    return f"{len(values)} times, {values[0]:.1f} to {values[-1]:.1f} s, half of them within {values[len(values) // 2]:.1f} s"
