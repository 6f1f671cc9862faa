"""What the record counts, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from orchestrator.runs.database import now
from orchestrator.runs.models import ModelUsage, NewRun, RunStatus, WorkerInfo
from orchestrator.runs.store import Store
from orchestrator.telemetry.collector import RecordCollector
from orchestrator.telemetry.metrics import Metrics
from tests.scraping import read
from tests.unit.orchestrator.runs.families import Kin

SPEC = {"sandbox": {"provider": "docker"}}


@pytest.fixture
def metrics(store: Store, clock) -> Metrics:
    found = Metrics()
    found.add(RecordCollector(lambda: store.engine, clock))
    return found


@pytest.fixture
def added(store: Store) -> Callable[..., str]:
    ids = (f"run-{number:012x}" for number in range(1000))

    def add(**given: object) -> str:
        return store.add(NewRun(next(ids), "a", SPEC, **given)).id

    return add


def test_the_queue_is_told_by_tenant_with_the_age_of_the_oldest(metrics: Metrics, added: Callable[..., str], clock) -> None:
    added(tenant="acme")
    clock.advance(30)
    added(tenant="acme")
    added(tenant="other")
    found = read(metrics.render())
    assert (found["fanfold_queued_runs", ("acme",)], found["fanfold_queued_runs", ("other",)]) == (2, 1)
    assert 30 <= found["fanfold_queue_age_seconds", ("acme",)] < 60
    assert found["fanfold_queue_age_seconds", ("other",)] < 30


def test_children_that_wait_are_in_no_queue(metrics: Metrics, store: Store, clock) -> None:
    kin = Kin(store, clock)
    kin.begin(kin.top(tenant="acme"), "a", "b")
    found = read(metrics.render())
    assert ("fanfold_queued_runs", ("acme",)) not in found
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


def test_a_record_that_is_away_is_told_as_such(store: Store, metrics: Metrics) -> None:
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE artifacts")
        connection.exec_driver_sql("DROP TABLE usage")
    found = read(metrics.render())
    assert found["fanfold_record_up", ()] == 0
    assert ("fanfold_workers", ()) not in found
