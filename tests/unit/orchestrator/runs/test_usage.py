"""What attempts used is in the record, by attempt, agent and model."""

from __future__ import annotations

import pytest

from orchestrator.errors import StaleLease
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease, ModelUsage, RunError
from orchestrator.runs.store import Store

HUGE = 5_000_000_000


def used(attempt: int, agent: str, cost: int | None = None) -> ModelUsage:
    return ModelUsage(attempt, agent, "openai:x", 2, HUGE, 10, HUGE - 1, 1, cost)


def test_each_attempt_has_its_own_usage(store: Store, lease: Lease) -> None:
    first, second = [used(1, ""), used(1, "finder", HUGE)], [used(2, "")]
    store.add_usage(lease, 1, first)
    store.record_time(lease, 1, 1.5)
    store.next_attempt(lease, RunError("task", "no"))
    store.add_usage(lease, 2, second)
    store.record_time(lease, 2, 0.25)
    assert store.usage("run-a") == [*first, *second]
    assert [one.sandbox_seconds for one in store.attempts("run-a")] == [1.5, 0.25]


def test_an_attempt_without_a_model_has_the_time_of_its_sandbox(store: Store, lease: Lease) -> None:
    assert [one.sandbox_seconds for one in store.attempts("run-a")] == [None]
    store.record_time(lease, 1, 3.0)
    assert store.usage("run-a") == []
    assert [one.sandbox_seconds for one in store.attempts("run-a")] == [3.0]


def test_a_worker_that_lost_its_run_records_no_usage(store: Store, lease: Lease, clock) -> None:
    clock.advance(LEASE_TTL + 1)
    assert store.claim("run-a", "w2") is not None
    with pytest.raises(StaleLease):
        store.add_usage(lease, 1, [used(1, "")])
    assert store.usage("run-a") == []
