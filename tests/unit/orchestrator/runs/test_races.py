"""Many threads on one run: whatever comes first, the record is one that a single worker could have made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from orchestrator.errors import FanfoldError, IllegalTransition, StaleLease
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Artifact, AttemptStatus, Lease, NewEvent, NewRun, RunError, RunStatus
from orchestrator.runs.store import Store, now

THREADS = 8
ROUNDS = 10


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call gave or raised; they begin at the same moment."""
    barrier = threading.Barrier(len(calls))

    def begin(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        except FanfoldError as exc:
            return exc

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(begin, calls))


def claimed(store: Store, run_id: str) -> Lease:
    store.add(NewRun(run_id, "name", {}))
    lease = store.claim(run_id, "w")
    assert lease is not None
    return lease


@pytest.mark.parametrize("left_by_a_worker", [False, True], ids=["pending", "lost"])
def test_of_many_that_claim_a_run_one_gets_it(store: Store, clock, left_by_a_worker: bool) -> None:
    runs = [f"run-{number}" for number in range(ROUNDS)]
    for run_id in runs:
        store.add(NewRun(run_id, "name", {}))
        if left_by_a_worker:
            store.claim(run_id, "dead")
    clock.advance(LEASE_TTL + 1)
    for run_id in runs:
        won = [lease for lease in at_once(*[partial(store.claim, run_id, f"w{n}") for n in range(THREADS)]) if lease]
        assert len(won) == 1
        attempts = store.attempts(run_id)
        assert (attempts[-1].worker, attempts[-1].status) == (won[0].worker, AttemptStatus.RUNNING)
        assert len(attempts) == 1 + left_by_a_worker


def test_events_of_many_threads_have_numbers_without_gaps(store: Store) -> None:
    lease = claimed(store, "run-a")

    def write(thread: int) -> None:
        for number in range(ROUNDS):
            store.append(lease, [NewEvent("log", {"thread": thread, "n": number + part / 2}, now()) for part in (0, 1)])
            store.add_artifact(lease, Artifact("run-a", f"{thread}", number, "0" * 64, now()))

    assert at_once(*[partial(write, n) for n in range(THREADS)]) == [None] * THREADS
    events = store.events("run-a")
    assert [event.seq for event in events] == list(range(1, THREADS * ROUNDS * 3 + 1))
    for thread in range(THREADS):
        mine = [event.data["n"] for event in events if event.data.get("thread") == thread]
        assert mine == [number / 2 for number in range(ROUNDS * 2)]


def test_a_run_that_several_end_at_once_ends_once(store: Store) -> None:
    for number in range(ROUNDS):
        run_id = f"run-{number}"
        lease = claimed(store, run_id)
        ends = [RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.CANCELLED]
        answers = at_once(
            *[partial(store.finish, lease, end) for end in ends],
            partial(store.request_cancel, run_id),
            partial(store.append, lease, [NewEvent("log", {}, now())]),
        )
        ended = [answer for answer in answers[:4] if not isinstance(answer, StaleLease)]
        assert len(ended) == 1
        run, events = store.get(run_id), store.events(run_id)
        assert run.status is ended[0].status
        assert [event.type for event in events].count("run.finished") == 1
        assert events[-1].type == "run.finished"
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [one.status.value for one in store.attempts(run_id)] == [run.status.value]


def test_a_run_is_either_claimed_or_cancelled_or_given_up(store: Store) -> None:
    for number in range(ROUNDS):
        run_id = f"run-{number}"
        store.add(NewRun(run_id, "name", {}))
        lease, cancelled, given_up = at_once(
            partial(store.claim, run_id, "w"),
            partial(store.request_cancel, run_id),
            partial(store.abandon, run_id, RunError("infrastructure", "no broker")),
        )
        run = store.get(run_id)
        if lease is not None:
            assert isinstance(given_up, IllegalTransition)
            assert (run.status, run.cancel_requested) == (RunStatus.RUNNING, True)
        elif isinstance(given_up, IllegalTransition):
            assert run.status is cancelled.status is RunStatus.CANCELLED
        else:
            assert run.status is RunStatus.ERROR
        assert len(store.events(run_id)) == (lease is None)
        assert len(store.attempts(run_id)) == (lease is not None)
