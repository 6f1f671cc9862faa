"""Any sequence of calls over a store: the time by which it goes, and how many sequences are tried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Stopwatch:
    """A time that only a test moves."""

    def __init__(self) -> None:
        self.moment = BEGAN

    def __call__(self) -> datetime:
        return self.moment


def live(machine: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int, **more: Any) -> None:
    """Try so many sequences of so many steps; `more` are settings of hypothesis."""
    bounds = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        **more,
    )
    run_state_machine_as_test(machine, settings=bounds)
