"""What was used adds up: by run, over all its attempts, and by tenant and month; and holds what has used up its budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from orchestrator.errors import QuotaExceeded, StaleLease
from orchestrator.runs import tables as t
from orchestrator.runs.dispatching import BUDGET_TTL
from orchestrator.runs.engine import WRITE
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease, ModelUsage, NewRun, RunError
from orchestrator.runs.spending import next_month
from orchestrator.runs.spent import Spent
from orchestrator.runs.store import Store
from orchestrator.runs.tenants import Tenants
from orchestrator.spec import Budget
from tests.unit.orchestrator.runs.families import Kin
from tests.unit.orchestrator.runs.queueing import Scene

HANDLE = {"id": "sbx-1", "provider": "local"}


def used(tokens: int, cost: int | None = None, agent: str = "", number: int = 1) -> ModelUsage:
    return ModelUsage(number, agent, "openai:x", 1, tokens - 1, 1, 2, 3, cost)


def change_attempts(store: Store, **values: Any) -> None:
    with store._engine.connect().execution_options(**WRITE) as connection, connection.begin():
        connection.execute(update(t.attempts).values(**values))


@pytest.fixture
def scene(store: Store, clock) -> Scene:
    made = Scene(store, clock)
    made.worker(50)
    return made


@pytest.fixture
def lease(scene: Scene) -> Lease:
    scene.submit("run-a")
    return scene.begin("run-a")


def test_what_each_call_used_adds_up(store: Store, lease: Lease) -> None:
    assert store.add_usage(lease, 1, [used(10, 100)]) == Spent(10, 100, 0.0)
    assert store.add_usage(lease, 1, [used(5), used(7, 1, "finder")]) == Spent(22, 101, 0.0)
    assert store.spent("run-a") == Spent(22, 101, 0.0)
    first, second = store.usage("run-a")
    assert (first.calls, first.input_tokens, first.output_tokens, first.cost_micros) == (2, 13, 2, 100)
    assert (first.cache_read_tokens, first.cache_write_tokens, second.calls) == (4, 6, 1)


def test_what_a_run_used_with_its_children_is_not_what_others_of_its_tree_used(store: Store, clock) -> None:
    kin = Kin(store, clock)
    top = kin.top()
    first, second = (kin.grant(child) for child in kin.begin(top, "a", "b"))
    (below,) = kin.begin(first, "c")
    store.add_usage(top, 1, [used(1000)])
    store.add_usage(first, 1, [used(100, 7)])
    store.add_usage(second, 1, [used(20)])
    store.add_usage(kin.grant(below), 1, [used(3, 2)])

    assert store.spent_with_children(first.run_id) == Spent(103, 9)
    assert store.spent_with_children(below) == Spent(3, 2)
    assert store.spent_with_children(top.run_id) == store.spent(first.run_id) == Spent(1123, 9)


def test_a_cost_that_is_known_later_counts(store: Store, lease: Lease) -> None:
    store.add_usage(lease, 1, [used(10)])
    assert store.usage("run-a")[0].cost_micros is None
    assert store.add_usage(lease, 1, [used(10, 7)]).cost_micros == 7


def test_a_run_has_used_what_all_its_attempts_have(store: Store, lease: Lease, clock) -> None:
    store.add_usage(lease, 1, [used(10)])
    number = store.next_attempt(lease, RunError("task", "no"))
    assert store.add_usage(lease, number, [used(5, number=number)]).tokens == 15
    clock.advance(LEASE_TTL + 1)
    again = store.claim("run-a", "w2")
    assert again is not None
    assert store.add_usage(again, 3, [used(1, number=3)]).tokens == 16


def test_a_run_and_all_below_it_have_used_what_each_of_them_has(store: Store, clock) -> None:
    kin = Kin(store, clock)
    top, other = kin.top(tenant="acme"), kin.top("run-q", tenant="acme")
    child = kin.grant(kin.begin(top, "a")[0])
    grandchild = kin.grant(kin.begin(child, "b")[0])
    store.add_usage(other, 1, [used(1000)])
    for lease, sum_of_all in ((top, 10), (child, 20), (grandchild, 30)):
        assert store.add_usage(lease, 1, [used(10, 5)]) == Spent(sum_of_all, sum_of_all // 2, 0.0)
        assert [one.calls for one in store.usage(lease.run_id)] == [1]
    store.set_sandbox(grandchild, HANDLE)
    clock.advance(7)
    for run_id in ("run-p", child.run_id, grandchild.run_id):
        assert store.spent(run_id).tokens == 30
        assert 7 <= store.spent(run_id).sandbox_seconds < 60
    assert store.spent("run-q") == Spent(1000)
    used_by_all = Tenants(store.engine, clock).usage("acme")
    assert (used_by_all.runs, used_by_all.month.tokens, used_by_all.month.cost_micros) == (2, 1030, 15)


def test_a_worker_that_lost_its_run_adds_nothing(store: Store, lease: Lease, clock) -> None:
    clock.advance(LEASE_TTL + 1)
    assert store.claim("run-a", "w2") is not None
    with pytest.raises(StaleLease):
        store.add_usage(lease, 1, [used(10)])
    assert store.spent("run-a") == Spent()


def test_the_time_of_a_sandbox_counts_as_it_passes(store: Store, lease: Lease, clock) -> None:
    clock.advance(3)
    assert store.spent("run-a").sandbox_seconds == 0
    store.set_sandbox(lease, HANDLE)
    clock.advance(4)
    assert 7 <= store.spent("run-a").sandbox_seconds < 60


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (Budget(), None),
        (Budget(tokens=101, cost=0.3, sandbox_seconds=61), None),
        (Budget(tokens=100), "its budget of 100 tokens (100 used)"),
        (Budget(cost=0.2), "its budget of 0.2 USD (0.25 USD used)"),
        (Budget(sandbox_seconds=60), "its budget of 60 s of sandboxes (60 s used)"),
    ],
)
def test_a_budget_is_used_up_when_nothing_of_it_is_left(budget: Budget, told: str | None) -> None:
    over = Spent(100, 250_000, 60.0).over(budget)
    assert over is None if told is None else over is not None and told in over


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_tokens": 10}, "10 tokens"),
        ({"max_cost_micros": 500_000}, "0.5 USD"),
        ({"max_sandbox_seconds": 5.0}, "5 s of sandboxes"),
    ],
)
def test_a_tenant_that_has_used_up_its_month_is_held_and_let_go_in_the_next(
    scene: Scene, limits: dict[str, float], told: str, store: Store
) -> None:
    scene.tenant("poor", **limits)
    for run_id in ("run-a", "run-b"):
        scene.submit(run_id, "poor")
    store.add(NewRun("run-c", "name", {}, "poor"), sent=False)
    store.add(NewRun("run-d", "name", {}, "rich"), sent=False)
    lease = scene.begin("run-a")
    store.add_usage(lease, 1, [used(10, 500_000)])
    store.set_sandbox(lease, HANDLE)
    scene.clock.advance(6)
    scene.worker(50)
    assert scene.look() == ["run-d"]
    with pytest.raises(QuotaExceeded, match=f"has used up its budget of {told} for this month") as refused:
        scene.submit("run-e", "poor")
    assert refused.value.retry_after == pytest.approx((next_month(scene.clock()) - scene.clock()).total_seconds(), abs=60)
    before = next_month(scene.clock()) - timedelta(days=40)
    change_attempts(store, started_at=before, sandbox_seconds=6.0)
    scene.clock.advance(BUDGET_TTL.total_seconds())
    scene.worker(50)
    assert scene.look() == ["run-c"]


def test_one_tenants_use_is_not_anothers(scene: Scene, store: Store) -> None:
    for tenant in ("one", "two"):
        scene.tenant(tenant, max_tokens=10)
    scene.submit("run-a", "one")
    store.add_usage(scene.begin("run-a"), 1, [used(10)])
    with pytest.raises(QuotaExceeded):
        scene.submit("run-b", "one")
    assert scene.submit("run-c", "two")


@pytest.mark.parametrize(("moment", "following"), [((2026, 1, 31), (2026, 2, 1)), ((2026, 12, 1), (2027, 1, 1))])
def test_months_follow_each_other(moment: tuple[int, int, int], following: tuple[int, int, int]) -> None:
    assert next_month(datetime(*moment, tzinfo=UTC)) == datetime(*following, tzinfo=UTC)
