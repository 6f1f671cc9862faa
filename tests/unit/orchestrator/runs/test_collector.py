"""What the record counts, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from orchestrator.policy import Placed, Policy
from orchestrator.runs.database import now
from orchestrator.runs.models import ModelUsage, NewRun, RunStatus, WorkerInfo
from orchestrator.runs.store import Store
from orchestrator.telemetry.collector import RecordCollector
from orchestrator.telemetry.metrics import Metrics
from tests.scraping import read
from tests.unit.orchestrator.runs.families import Kin


@pytest.fixture
def metrics(store: Store, clock) -> Metrics:
    found = Metrics()
    found.add(RecordCollector(lambda: store.engine, clock=clock))
    return found


@pytest.fixture
def added(store: Store) -> Callable[..., str]:
    ids = (f"run-{number:012x}" for number in range(1000))

    def add(provider: str = "docker", **given: object) -> str:
        return store.add(NewRun(next(ids), "a", {"sandbox": {"provider": provider}}, **given)).id

    return add


def test_the_queue_is_told_by_tenant_with_the_age_of_the_oldest(metrics: Metrics, added: Callable[..., str], clock) -> None:
    added(tenant="acme")
    clock.advance(30)
    added(tenant="acme")
    added(tenant="other")
    found = read(metrics.render())
    assert (found["fanfold_queued_runs", ("fanfold", "acme")], found["fanfold_queued_runs", ("fanfold", "other")]) == (2, 1)
    assert 30 <= found["fanfold_queue_age_seconds", ("fanfold", "acme")] < 60
    assert found["fanfold_queue_age_seconds", ("fanfold", "other")] < 30


def test_the_queue_of_a_run_is_that_of_the_first_route_that_fits(store: Store, added: Callable[..., str], clock) -> None:
    policy = Policy.model_validate({
        "routes": [
            {"provider": "modal", "label": "team=ml", "queue": "both"},
            {"label": "team=ml", "queue": "ml"},
            {"provider": "modal", "queue": "cloud"},
        ]
    })  # fmt: skip
    given = [("modal", {"team": "ml"}), ("docker", {"team": "ml"}), ("modal", {"team": "web"}), ("docker", {}), ("modal", {})]
    for provider, labels in given:
        added(tenant="acme", provider=provider, labels=labels)
        clock.advance(60)
    metrics = Metrics()
    metrics.add(RecordCollector(lambda: store.engine, lambda: policy, clock))

    found = read(metrics.render())

    counts = {labels[0]: value for (name, labels), value in found.items() if name == "fanfold_queued_runs"}
    assert counts == Counter(policy.queue(Placed(provider, labels)) for provider, labels in given)
    assert counts == {"both": 1, "ml": 1, "cloud": 2, "fanfold": 1}
    assert 180 <= found["fanfold_queue_age_seconds", ("cloud", "acme")] < 240
    assert 240 <= found["fanfold_queue_age_seconds", ("ml", "acme")] < 300


def test_children_that_wait_are_in_no_queue(metrics: Metrics, store: Store, clock) -> None:
    kin = Kin(store, clock)
    kin.begin(kin.top(tenant="acme"), "a", "b")
    found = read(metrics.render())
    assert ("fanfold_queued_runs", ("fanfold", "acme")) not in found
    assert found["fanfold_runs", ("pending",)] == 2


def test_runs_workers_and_sandboxes_are_counted(store: Store, metrics: Metrics, added: Callable[..., str]) -> None:
    added()
    lease = store.claim(added(), "w")
    assert lease is not None
    store.set_sandbox(lease, {"provider": "docker", "id": "sbx"})
    store.worker_alive(WorkerInfo("w", "host", 1, 4, now(), now()))
    store.worker_alive(WorkerInfo("silent", "host", 2, 8, now(), now() - timedelta(minutes=1)))
    found = read(metrics.render())
    assert found["fanfold_runs", ("pending",)] == found["fanfold_runs", ("running",)] == 1
    assert found["fanfold_runs", ("success",)] == 0
    assert found["fanfold_sandboxes", ("docker",)] == 1
    assert (found["fanfold_workers", ()], found["fanfold_worker_slots", ()]) == (1, 4)
    assert found["fanfold_record_up", ()] == 1


def test_usage_of_the_last_day_is_told_by_tenant_and_model(store: Store, metrics: Metrics, added, clock) -> None:
    for _ in range(2):
        lease = store.claim(added(tenant="acme"), "w")
        assert lease is not None
        store.add_usage(lease, 1, [ModelUsage(1, "", "openai:gpt", 2, 100, 10, 5, 0, 1_500_000)])
        store.finish(lease, RunStatus.SUCCESS)
    found = read(metrics.render())
    assert found["fanfold_day_tokens", ("input", "openai:gpt", "acme")] == 200
    assert found["fanfold_day_cost_usd", ("openai:gpt", "acme")] == 3.0
    clock.advance(25 * 3600)
    assert ("fanfold_day_tokens", ("input", "openai:gpt", "acme")) not in read(metrics.render())


def test_the_seconds_of_sandboxes_of_the_last_day_are_told_by_tenant_and_provider(
    store: Store, metrics: Metrics, added, clock
) -> None:
    for tenant in ("acme", "acme", "other"):
        lease = store.claim(added(tenant=tenant), "w")
        assert lease is not None
        store.set_sandbox(lease, {"provider": "docker", "id": "sbx"})
        store.record_time(lease, 1, 30)
        store.finish(lease, RunStatus.SUCCESS)
    found = read(metrics.render())
    assert found["fanfold_day_sandbox_seconds", ("docker", "acme")] == 60
    assert found["fanfold_day_sandbox_seconds", ("docker", "other")] == 30
    clock.advance(25 * 3600)
    assert ("fanfold_day_sandbox_seconds", ("docker", "acme")) not in read(metrics.render())


def test_a_record_that_is_away_is_told_as_such(store: Store, metrics: Metrics) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE artifacts")
        connection.exec_driver_sql("DROP TABLE usage")
    found = read(metrics.render())
    assert found["fanfold_record_up", ()] == 0
    assert ("fanfold_workers", ()) not in found
