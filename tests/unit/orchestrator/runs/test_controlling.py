"""What a controller asks of the record, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.runs.controlling import ControlRecord, WaitingRun
from orchestrator.runs.keeping import Owner
from orchestrator.runs.leases import BACKOFF, LEASE_TTL, MAX_LOST, patience
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store


@pytest.fixture
def record(store: Store, database: str, tmp_path: Path, clock) -> Iterator[ControlRecord]:
    opened = ControlRecord(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


def test_a_run_without_its_worker_comes_back_more_slowly_each_time(store: Store, record: ControlRecord, clock) -> None:
    store.add(NewRun("run-a", "name", {}))
    for claims in range(1, MAX_LOST + 2):
        assert store.claim("run-a", f"w{claims}") is not None
        assert record.lost_runs() == []
        clock.advance(patience(claims - 1) - 0.5)
        assert record.lost_runs() == []
        assert store.claim("run-a", "too early") is None
        clock.advance(1)
        assert record.lost_runs() == [WaitingRun("run-a", claims)]
    assert [patience(n) - LEASE_TTL for n in range(5)] == [0, BACKOFF, 2 * BACKOFF, 4 * BACKOFF, 8 * BACKOFF]
    assert patience(1000) == patience(MAX_LOST)


def test_pending_runs_wait_for_a_while_before_anybody_asks(store: Store, record: ControlRecord, clock) -> None:
    store.add(NewRun("run-a", "name", {}))
    assert record.pending_runs(older_than=1) == []
    clock.advance(2)
    store.add(NewRun("run-b", "name", {}))
    assert record.pending_runs(older_than=1) == [WaitingRun("run-a", 0)]
    store.claim("run-a", "w")
    assert record.pending_runs(older_than=1) == []


def test_a_run_tells_what_its_sandboxes_need_to_know(store: Store, record: ControlRecord) -> None:
    for run_id in ("run-a", "run-b"):
        store.add(NewRun(run_id, "name", {}))
    lease = store.claim("run-a", "w")
    assert lease is not None
    store.set_sandbox(lease, {"provider": "local", "id": "sbx-1"})
    other = store.claim("run-b", "w")
    assert other is not None
    store.finish(other, RunStatus.SUCCESS)
    assert record.owners({"run-a", "run-b", "run-z", ""}) == {
        "run-a": Owner(ended=False, attempt=1, sandbox_id="sbx-1"),
        "run-b": Owner(ended=True, attempt=1, sandbox_id=None),
    }
    assert record.owners([]) == {}


def test_an_installation_has_one_id_for_ever(store: Store, record: ControlRecord, tmp_path: Path) -> None:
    assert store.installation() == record.installation()
    other = Store(open_database(f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "lock"))
    assert other.installation() != store.installation()
    other.close()


def test_one_controller_leads_until_it_is_silent_for_too_long(record: ControlRecord, clock) -> None:
    assert record.lead("a", ttl=3)
    assert not record.lead("b", ttl=3)
    clock.advance(2)
    assert record.lead("a", ttl=3)
    clock.advance(2)
    assert not record.lead("b", ttl=3)
    clock.advance(2)
    assert record.lead("b", ttl=3)
    assert not record.lead("a", ttl=3)


def test_who_resigns_is_followed_at_once_and_cannot_end_the_time_of_another(record: ControlRecord) -> None:
    assert record.lead("a", ttl=3)
    record.resign("a")
    assert record.lead("b", ttl=3)
    record.resign("a")
    assert not record.lead("a", ttl=3)


def test_of_many_that_want_to_lead_one_does(record: ControlRecord) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: record.lead(f"c{n}", ttl=60), range(24)))
    assert answers.count(True) == 1
