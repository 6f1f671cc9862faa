"""Everything is killed, paused and cut off at random, and nothing is lost. The long form is `python -m tests.chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.trial import Plan, Report, carry_out
from tests.chaos.world import Size

SMALL = Size(workers=2, controllers=2, apis=1)


def disturbed(plan: Plan, logs: Path) -> Report:
    report = carry_out(plan, logs=logs)
    print(report)
    assert not report.findings.breaches, f"{report}\nThe logs are in {logs}."
    return report


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("seed", "persistent"), [(3, False)])
def test_nothing_is_lost_and_nothing_happens_twice(tmp_path: Path, seed: int, persistent: bool) -> None:
    size = Size(workers=2, controllers=2, apis=1, persistent=persistent)
    report = disturbed(Plan(seed=seed, runs=40, seconds=20, every=1.5, size=size), tmp_path)
    assert sum(report.disturbances.values()) >= 8, "too little happened"
    assert report.findings.ledger_lines > 60


@pytest.mark.docker
@pytest.mark.timeout(400)
def test_containers_are_adopted_as_well(tmp_path: Path) -> None:
    plan = Plan(seed=2, runs=8, seconds=12, every=3.0, size=SMALL, provider="docker", kinds=("worker",))
    disturbed(plan, tmp_path)
