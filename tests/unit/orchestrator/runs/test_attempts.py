"""Each attempt has its worker, its times, its sandbox and its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.errors import StaleLease
from orchestrator.runs.history import history
from orchestrator.runs.leases import LEASE_TTL, STEADY
from orchestrator.runs.models import Attempt, AttemptStatus, Lease, NewRun, RunError, RunStatus
from orchestrator.runs.store import Store

FAILED = RunError("task", "the command failed with exit code 3")


def statuses(store: Store) -> list[tuple[int, str, str]]:
    return [(one.number, one.worker, one.status.value) for one in store.attempts("run-a")]


def test_a_run_that_nobody_has_claimed_has_no_attempts(store: Store) -> None:
    store.add(NewRun("run-a", "name", {}))
    assert store.attempts("run-a") == []
    store.request_cancel("run-a")
    assert store.attempts("run-a") == []


def test_an_attempt_begins_with_the_claim_and_ends_with_the_run(store: Store, lease: Lease) -> None:
    (begun,) = store.attempts("run-a")
    assert (begun.number, begun.worker, begun.status, begun.finished_at) == (1, "w1", AttemptStatus.RUNNING, None)
    run = store.finish(lease, RunStatus.ERROR, FAILED)
    (ended,) = store.attempts("run-a")
    assert (ended.status, ended.error, ended.finished_at) == (AttemptStatus.ERROR, FAILED, run.finished_at)
    assert ended.started_at == run.started_at


@pytest.mark.parametrize("status", [status for status in RunStatus if status.terminal])
def test_the_last_attempt_ends_as_its_run_does(store: Store, lease: Lease, status: RunStatus) -> None:
    store.finish(lease, status)
    assert statuses(store) == [(1, "w1", status.value)]


def test_a_retry_ends_one_attempt_with_its_error_and_begins_another(store: Store, lease: Lease) -> None:
    store.set_sandbox(lease, {"id": "sbx-1", "provider": "local"})
    assert store.next_attempt(lease, FAILED) == 2
    store.finish(lease, RunStatus.SUCCESS)
    first, second = store.attempts("run-a")
    assert (first.status, first.error, first.finished_at) == (AttemptStatus.ERROR, FAILED, second.started_at)
    assert (second.number, second.status, second.error) == (2, AttemptStatus.SUCCESS, None)
    assert (first.provider, first.sandbox_id, second.sandbox_id) == ("local", "sbx-1", None)


def test_an_attempt_keeps_where_it_ran_when_the_sandbox_is_gone(store: Store, lease: Lease) -> None:
    store.set_sandbox(lease, {"id": "sbx-1", "provider": "docker", "data": {"any": "thing"}})
    store.start_over(lease)
    (attempt,) = store.attempts("run-a")
    assert (attempt.provider, attempt.sandbox_id) == ("docker", "sbx-1")
    assert store.get("run-a").sandbox is None


def test_the_attempt_of_a_worker_that_died_is_lost(store: Store, lease: Lease, clock) -> None:
    store.set_sandbox(lease, {"id": "sbx-1", "provider": "local"})
    store.heartbeat(lease)
    heard = store.get("run-a").heartbeat_at
    clock.advance(LEASE_TTL + 1)
    second = store.claim("run-a", "w2")
    assert second is not None
    lost, running = store.attempts("run-a")
    assert (lost.status, lost.finished_at, lost.error, lost.sandbox_id) == (AttemptStatus.LOST, heard, None, "sbx-1")
    assert (running.number, running.worker, running.status) == (2, "w2", AttemptStatus.RUNNING)
    # the new worker can still find the sandbox
    assert store.get("run-a").sandbox == {"id": "sbx-1", "provider": "local"}
    with pytest.raises(StaleLease):
        store.next_attempt(lease, FAILED)
    assert statuses(store) == [(1, "w1", "lost"), (2, "w2", "running")]


def test_the_reason_of_an_error_may_be_any_text(store: Store, lease: Lease) -> None:
    store.next_attempt(lease, RunError("task", "nul \0 lone \udc80 wide \U0001f600"))
    run = store.finish(lease, RunStatus.ERROR, RunError("task", "\0"))
    told = [one.error.message for one in store.attempts("run-a") if one.error]
    assert told == ["nul \ufffd lone \ufffd wide \U0001f600", "\ufffd"]
    assert run.error is not None
    assert store.events("run-a")[-1].data["error"]["message"] == "\0"


def test_a_history_tells_what_is_over() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    later = began + timedelta(seconds=2.5)
    attempts = [
        Attempt("run-a", 1, "w1", AttemptStatus.LOST, began, later),
        Attempt("run-a", 2, "w2", AttemptStatus.ERROR, began, later, FAILED),
        Attempt("run-a", 3, "w3", AttemptStatus.RUNNING, began),
    ]
    assert history(attempts) == (
        "attempt 1 on w1: lost after 2.5 s\nattempt 2 on w2: error after 2.5 s: the command failed with exit code 3"
    )


def test_workers_that_were_lost_long_after_they_began_have_not_died_of_the_run(store: Store, lease: Lease, clock) -> None:
    held: Lease | None = lease
    for lost in (1, 2):
        clock.advance(LEASE_TTL * 3)
        held = store.claim("run-a", f"w{lost}")
        assert store.get("run-a").lost == lost
    assert held is not None
    clock.advance(STEADY + 1)
    store.heartbeat(held)
    clock.advance(LEASE_TTL * 3)
    assert store.claim("run-a", "w3") is not None
    assert store.get("run-a").lost == 1
