"""Threads in the record, on both databases: whose they are, and what becomes of runs that want one at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from orchestrator.errors import BadInput, Conflict, NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.conversations import Conversations
from orchestrator.runs.database import Database
from orchestrator.runs.models import Lease, NewRun, Run, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.runs.threads import Multitask, Threads, its_turn, new_thread_id

TALKS = {"agent": {"prompt": "Go on.", "model": "scripted:a.yaml"}}
AT_ONCE = 6
ROUNDS = 5


class Inside(Threads):
    """The threads, and what a test does to the tables by hand."""

    def say(self, thread_id: str, run_id: str) -> None:
        """Record that something was said."""
        values = {"thread_id": thread_id, "number": 1, "run_id": run_id, "at": self._now(), "kind": "json", "data": b"{}"}
        with self._writing() as connection:
            connection.execute(insert(s.conversations).values(values))

    def unsend(self, *run_ids: str) -> None:
        """Put runs back into the queue."""
        with self._writing() as connection:
            connection.execute(update(t.runs).where(t.runs.c.id.in_(run_ids)).values(dispatched_at=None))

    def sendable(self) -> set[str]:
        """Runs of the queue whose turn it is."""
        waiting = (t.runs.c.status == "pending", t.runs.c.dispatched_at.is_(None), its_turn())
        with self._reading() as connection:
            return set(connection.execute(select(t.runs.c.id).where(*waiting)).scalars())


def opened(kind: type[Database], database: str, tmp_path: Path, clock) -> Iterator[Database]:
    record = kind(open_database(database, tmp_path / "lock"), clock)
    yield record
    record.close()


@pytest.fixture
def threads(store: Store, database: str, tmp_path: Path, clock) -> Iterator[Database]:
    yield from opened(Inside, database, tmp_path, clock)


@pytest.fixture
def thread(threads: Threads) -> str:
    return threads.add(new_thread_id(), {}, tenant="default").id


def in_thread(run_id: str, thread: str, **more: str) -> NewRun:
    return NewRun(run_id, "name", TALKS, thread_id=thread, **more)


def begun(store: Store, run_id: str, thread: str) -> Lease:
    store.add(in_thread(run_id, thread))
    lease = store.claim(run_id, "w")
    assert lease is not None
    return lease


def statuses(store: Store, *run_ids: str) -> list[RunStatus]:
    return [store.get(run_id).status for run_id in run_ids]


# Whose they are


def test_a_thread_tells_what_its_owner_noted(threads: Threads) -> None:
    made = threads.add("thr-a", {"user": "Zoë", "n": 1}, tenant="one")
    assert threads.get("thr-a", tenant="one") == made
    changed = threads.describe("thr-a", {"user": "Ada"}, tenant="one")
    assert changed.metadata == {"user": "Ada"}
    assert threads.get("thr-a", tenant="one") == changed


def test_another_tenants_thread_is_not_there(store: Store, threads: Threads) -> None:
    threads.add("thr-a", {"a": 1}, tenant="one")
    for attempt in (
        lambda: threads.get("thr-a", tenant="two"),
        lambda: threads.describe("thr-a", {}, tenant="two"),
        lambda: threads.remove("thr-a", tenant="two"),
        lambda: store.add(in_thread("run-a", "thr-a", tenant="two")),
    ):
        with pytest.raises(NotFound, match="there is no thread 'thr-a'"):
            attempt()
    assert threads.page(10, tenant="two") == []
    assert threads.get("thr-a", tenant="one").metadata == {"a": 1}
    assert store.recent(tenant="two") == []


def test_pages_of_threads_have_each_once_and_the_newest_first(threads: Threads, clock) -> None:
    for number in range(7):
        clock.advance(number % 2)  # some are as old as others
        threads.add(f"thr-{number}", {}, tenant="one")
    seen, before = [], None
    while page := threads.page(3, before, tenant="one"):
        seen += page
        before = (page[-1].created_at, page[-1].id)
    assert [thread.id for thread in seen] == [thread.id for thread in threads.page(10, tenant="one")]
    assert len(seen) == len({thread.id for thread in seen}) == 7
    assert seen == sorted(seen, key=lambda thread: thread.created_at, reverse=True)


# Deleting


def test_a_thread_goes_with_what_was_said_and_its_runs_stay(store: Store, threads: Inside, thread: str) -> None:
    lease = begun(store, "run-a", thread)
    with pytest.raises(Conflict, match="run run-a of it is running"):
        threads.remove(thread, tenant="default")
    store.finish(lease, RunStatus.SUCCESS)
    threads.say(thread, "run-a")
    threads.remove(thread, tenant="default")
    with pytest.raises(NotFound):
        threads.get(thread, tenant="default")
    assert store.get("run-a").status is RunStatus.SUCCESS


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.RUNNING])
def test_a_thread_stays_while_a_run_of_it_goes_on(store: Store, threads: Threads, thread: str, status: RunStatus) -> None:
    store.add(in_thread("run-a", thread))
    if status is RunStatus.RUNNING:
        store.claim("run-a", "w")
    with pytest.raises(Conflict, match=f"is {status}: cancel the run first"):
        threads.remove(thread, tenant="default")
    assert threads.get(thread, tenant="default").id == thread


# Joining


def test_only_an_agent_can_talk(store: Store, thread: str) -> None:
    with pytest.raises(BadInput, match="'build' is a command: leave `thread_id` out"):
        store.add(NewRun("run-a", "build", {"command": "make"}, thread_id=thread))
    assert store.recent() == []


def test_a_thread_that_is_not_there_is_told(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no thread 'thr-none'"):
        store.add(in_thread("run-a", "thr-none"))


@pytest.mark.parametrize("multitask", list(Multitask))
def test_alone_in_its_thread_a_run_is_taken_by_every_strategy(store: Store, thread: str, multitask: Multitask) -> None:
    store.finish(begun(store, "run-a", thread), RunStatus.SUCCESS)
    assert store.add(in_thread("run-b", thread), multitask).thread_id == thread
    assert (store.get("run-a").status, store.get("run-a").thread_id) == (RunStatus.SUCCESS, thread)


def test_reject_refuses_while_another_one_goes_on(store: Store, thread: str) -> None:
    lease = begun(store, "run-a", thread)
    with pytest.raises(Conflict, match="run run-a of it is running"):
        store.add(in_thread("run-b", thread), Multitask.REJECT)
    assert [run.id for run in store.recent()] == ["run-a"]
    store.finish(lease, RunStatus.ERROR)
    store.add(in_thread("run-b", thread), Multitask.REJECT)


def test_enqueue_leaves_the_others_as_they_are(store: Store, thread: str) -> None:
    begun(store, "run-a", thread)
    store.add(in_thread("run-b", thread))
    assert statuses(store, "run-a", "run-b") == [RunStatus.RUNNING, RunStatus.PENDING]
    assert not store.cancel_requested("run-a")


@pytest.mark.parametrize(("multitask", "left"), [(Multitask.INTERRUPT, False), (Multitask.ROLLBACK, True)])
def test_interrupt_and_rollback_cancel_the_others(
    store: Store, threads: Threads, thread: str, multitask: Multitask, left: bool
) -> None:
    begun(store, "run-a", thread)
    store.add(in_thread("run-b", thread))
    other = begun(store, "run-other", threads.add(new_thread_id(), {}, tenant="default").id)
    store.add(in_thread("run-c", thread), multitask)
    assert statuses(store, "run-a", "run-b", "run-c") == [RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.PENDING]
    assert store.cancel_requested("run-a")
    assert [store.get(run_id).thread_id for run_id in ("run-a", "run-b", "run-c")] == [None if left else thread] * 2 + [thread]
    assert not store.heartbeat(other)


def test_of_many_that_would_rather_be_refused_than_wait_one_is_taken(store: Store, threads: Threads) -> None:
    for round_ in range(ROUNDS):
        thread = threads.add(new_thread_id(), {}, tenant="default").id
        barrier = threading.Barrier(AT_ONCE)

        def submit(number: int, thread: str = thread, round_: int = round_, barrier: threading.Barrier = barrier) -> Run | None:
            barrier.wait()
            try:
                return store.add(in_thread(f"run-{round_}-{number}", thread), Multitask.REJECT)
            except Conflict:
                return None

        with ThreadPoolExecutor(AT_ONCE) as pool:
            taken = [run for run in pool.map(submit, range(AT_ONCE)) if run]
        assert len(taken) == 1


def test_of_many_that_interrupt_one_is_left(store: Store, threads: Threads) -> None:
    for round_ in range(ROUNDS):
        thread = threads.add(new_thread_id(), {}, tenant="default").id
        ids = [f"run-{round_}-{number}" for number in range(AT_ONCE)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda run_id, thread=thread: store.add(in_thread(run_id, thread), Multitask.INTERRUPT), ids))
        assert sorted(statuses(store, *ids)) == [RunStatus.CANCELLED] * (AT_ONCE - 1) + [RunStatus.PENDING]


def test_nobody_waits_for_ever_when_a_run_saves_what_it_said_while_another_interrupts_it(
    store: Store, threads: Threads, database: str, tmp_path: Path
) -> None:
    conversations = Conversations(open_database(database, tmp_path / "lock"))
    for round_ in range(ROUNDS):
        thread = threads.add(new_thread_id(), {}, tenant="default").id
        lease = begun(store, f"run-{round_}-a", thread)
        barrier = threading.Barrier(2)

        def save(lease: Lease = lease, barrier: threading.Barrier = barrier) -> list[int | None]:
            barrier.wait()
            return [conversations.save(lease, b"said") for _ in range(5)]

        def interrupt(thread: str = thread, round_: int = round_, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            for number in range(5):
                store.add(in_thread(f"run-{round_}-b{number}", thread), Multitask.INTERRUPT)

        with ThreadPoolExecutor(2) as pool:
            saved, done = pool.submit(save), pool.submit(interrupt)
            assert saved.result() == [1, 2, 3, 4, 5]
            done.result()
    conversations.close()


def test_a_thread_is_deleted_or_joined_but_not_both(store: Store, threads: Threads) -> None:
    for round_ in range(ROUNDS * 2):
        thread = threads.add(new_thread_id(), {}, tenant="default").id
        barrier = threading.Barrier(2)

        def join(run_id: str = f"run-{round_}", thread: str = thread, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                return bool(store.add(in_thread(run_id, thread)))
            except NotFound:
                return False

        def delete(thread: str = thread, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                threads.remove(thread, tenant="default")
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            joined, deleted = pool.submit(join), pool.submit(delete)
            assert joined.result() != deleted.result()


# Turns


def test_runs_of_a_thread_take_turns_in_the_order_of_their_coming(store: Store, threads: Inside, thread: str, clock) -> None:
    ids = ["run-c", "run-b", "run-a"]
    for run_id in ids:
        store.add(in_thread(run_id, thread))
        clock.advance(1)
    store.add(NewRun("run-free", "name", {"command": "true"}))
    threads.unsend(*ids, "run-free")
    for run_id in ids:
        assert threads.sendable() == {run_id, "run-free"}
        store.request_cancel(run_id)
    assert threads.sendable() == {"run-free"}


def test_a_run_that_was_sent_comes_first_whatever_its_clock_said(store: Store, threads: Inside, thread: str, clock) -> None:
    clock.advance(60)
    begun(store, "run-a", thread)
    clock.advance(-60)
    store.add(in_thread("run-b", thread))
    threads.unsend("run-b")
    assert threads.sendable() == set()


def test_after_a_rollback_nobody_waits_for_the_run_that_is_being_cancelled(store: Store, threads: Inside, thread: str) -> None:
    begun(store, "run-a", thread)
    store.add(in_thread("run-b", thread), Multitask.ROLLBACK)
    threads.unsend("run-b")
    assert threads.sendable() == {"run-b"}
