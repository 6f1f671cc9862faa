"""Batches in the record, on both databases: their counts, their pages, and cancelling them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import NotFound
from orchestrator.runs.batches import CANCELS_AT_ONCE, Batches, NewBatch, insert_batch
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.runs.webhooks import Webhook, Webhooks


class Inside(Batches):
    """The batches, and a way to record one without its runs."""

    def add(self, batch_id: str, size: int = 0, tenant: str = "default") -> None:
        with self._writing() as connection:
            insert_batch(connection, NewBatch(batch_id, tenant, "name", size), self._now())


@pytest.fixture
def batches(store: Store, database: str, tmp_path: Path, clock) -> Iterator[Inside]:
    opened = Inside(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


def runs_of(store: Store, batch_id: str, number: int, tenant: str = "default") -> list[str]:
    ids = [f"run-{batch_id}-{one}" for one in range(number)]
    for run_id in ids:
        store.add(NewRun(run_id, "name", {"command": "true"}, batch_id=batch_id, tenant=tenant))
    return ids


def cancel(batches: Batches, batch_id: str, tenant: str = "default") -> list[str]:
    ended = []
    while True:
        asked, more = batches.cancel_some(batch_id, tenant=tenant)
        if not asked:
            return ended
        ended += more


def test_a_batch_counts_its_runs_by_status(store: Store, batches: Inside) -> None:
    batches.add("bat-a", 4)
    batches.add("bat-b", 1)
    assert batches.get("bat-a", tenant="default").counts == {}
    first, second, third, _ = runs_of(store, "bat-a", 4)
    runs_of(store, "bat-b", 1)
    for run_id, status in ((first, RunStatus.SUCCESS), (second, RunStatus.SUCCESS), (third, None)):
        lease = store.claim(run_id, "w")
        assert lease is not None
        if status:
            store.finish(lease, status)
    found = batches.get("bat-a", tenant="default")
    assert (found.size, found.counts) == (4, {RunStatus.SUCCESS: 2, RunStatus.RUNNING: 1, RunStatus.PENDING: 1})
    listed = {batch.id: batch.counts for batch in batches.page(10, tenant="default")}
    assert listed == {"bat-a": found.counts, "bat-b": {RunStatus.PENDING: 1}}


def test_another_tenants_batch_is_not_there(store: Store, batches: Inside) -> None:
    batches.add("bat-a", 1, tenant="one")
    (run_id,) = runs_of(store, "bat-a", 1, tenant="one")
    with pytest.raises(NotFound, match="there is no batch 'bat-a'"):
        batches.get("bat-a", tenant="two")
    assert batches.page(10, tenant="two") == []
    assert cancel(batches, "bat-a", tenant="two") == []
    assert store.get(run_id).status is RunStatus.PENDING


def test_pages_of_batches_have_each_once_and_the_newest_first(batches: Inside, clock) -> None:
    for number in range(7):
        clock.advance(number % 2)  # some are as old as others
        batches.add(f"bat-{number}")
    seen, before = [], None
    while page := batches.page(3, before, tenant="default"):
        seen += page
        before = (page[-1].created_at, page[-1].id)
    assert len(seen) == len({batch.id for batch in seen}) == 7
    assert seen == sorted(seen, key=lambda batch: (batch.created_at, batch.id), reverse=True)


def test_cancelling_ends_what_waits_and_asks_what_runs(store: Store, batches: Inside) -> None:
    batches.add("bat-a", 4)
    ended, running, *waiting = runs_of(store, "bat-a", 4)
    lease = store.claim(ended, "w")
    assert lease is not None
    store.finish(lease, RunStatus.SUCCESS)
    assert store.claim(running, "w")
    outside = store.add(NewRun("run-z", "name", {"command": "true"}))
    assert sorted(cancel(batches, "bat-a")) == sorted(waiting)
    assert cancel(batches, "bat-a") == []
    assert store.cancel_requested(running)
    assert [store.get(run_id).status for run_id in waiting] == [RunStatus.CANCELLED] * 2
    assert [event.type for event in store.events(waiting[0])] == ["run.finished"]
    assert store.get(ended).status is RunStatus.SUCCESS
    assert store.get(outside.id) == outside


def test_a_large_batch_is_cancelled_in_parts(store: Store, batches: Inside) -> None:
    ids = runs_of(store, "bat-a", CANCELS_AT_ONCE + 1)
    asked, ended = batches.cancel_some("bat-a", tenant="default")
    assert asked == len(ended) == CANCELS_AT_ONCE
    assert sorted([*ended, *cancel(batches, "bat-a")]) == sorted(ids)


def test_whoever_wants_to_know_is_told_of_each_run_that_a_cancel_ends(store: Store, batches: Inside, clock) -> None:
    webhooks = Webhooks(store.engine, clock)
    for tenant in ("default", "other"):
        webhooks.add(Webhook(f"whk-{tenant}", tenant, "https://a.example", ("run.finished",), True, clock()), "sealed")
    ids = runs_of(store, "bat-a", 3)
    cancel(batches, "bat-a")
    told = webhooks.deliveries("whk-default", 10, tenant="default")
    assert sorted(delivery.run_id for delivery in told) == sorted(ids)
    assert webhooks.deliveries("whk-other", 10, tenant="other") == []
