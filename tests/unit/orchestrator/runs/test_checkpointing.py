"""Checkpoints in the record: of each graph the last one, written under the lease alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import Engine, func, select

from orchestrator.checkpoints import Blob, PendingWrite, Step, StoredCheckpoint, TaskWrites
from orchestrator.errors import InfrastructureError, StaleLease
from orchestrator.runs import checkpoint_tables as t
from orchestrator.runs.checkpointing import Checkpoints
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease, NewRun, RunStatus
from orchestrator.runs.store import Store


@pytest.fixture
def begin(store: Store) -> Callable[[str], Lease]:
    def begin(run_id: str) -> Lease:
        store.add(NewRun(run_id, "name", {}))
        lease = store.claim(run_id, "w1")
        assert lease is not None
        return lease

    return begin


@pytest.fixture
def lease(begin: Callable[[str], Lease]) -> Lease:
    return begin("run-a")


@pytest.fixture
def record(engine: Engine, lease: Lease) -> Checkpoints:
    return Checkpoints(engine, lease)


def step(number: int, ns: str = "", **parents: str) -> StoredCheckpoint:
    told = {"step": number, "parents": {"" if key == "root" else key: value for key, value in parents.items()}}
    parent = f"id-{number - 1}" if number > 1 else None
    return StoredCheckpoint("thread", ns, f"id-{number}", parent, "msgpack", bytes([number]), told)


def blob(channel: str, version: str) -> Blob:
    return Blob(channel, version, "bytes", f"{channel} {version} \x00".encode())


def write(task: str, number: int = 0, path: str = "", data: bytes = b"x") -> PendingWrite:
    return PendingWrite(task, number, "channel", path, "bytes", data)


def put(record: Checkpoints, checkpoint: StoredCheckpoint, blobs: Sequence[Blob], changed: Sequence[str]) -> None:
    record.note([Step(checkpoint, blobs, changed)])


def put_writes(record: Checkpoints, thread: str, ns: str, checkpoint_id: str, writes: Sequence[PendingWrite]) -> None:
    record.note([TaskWrites(thread, ns, checkpoint_id, writes)])


def rows(engine: Engine) -> list[int]:
    """How many rows the three tables have."""
    with engine.connect() as connection:
        tables = (t.checkpoints, t.blobs, t.writes)
        return [connection.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]


def test_a_checkpoint_is_found_as_it_was_put(record: Checkpoints) -> None:
    put(record, step(1), [blob("a", "1"), blob("b", "1")], ["a", "b"])
    found = record.get("thread", "")
    assert found is not None
    assert found.checkpoint == step(1)
    assert sorted(found.blobs, key=lambda one: one.channel) == [blob("a", "1"), blob("b", "1")]
    assert found.writes == []
    assert record.get("thread", "", "id-1") == found
    assert record.get("thread", "", "id-2") is None
    assert record.get("other", "") is None


def test_only_the_last_step_of_a_graph_is_kept(record: Checkpoints, engine: Engine) -> None:
    for number in range(1, 8):
        put(record, step(number), [blob("a", f"{number}")], ["a"])
        put_writes(record, "thread", "", f"id-{number}", [write("task", n) for n in range(3)])
    assert rows(engine) == [1, 1, 3]
    found = record.get("thread", "")
    assert found is not None
    assert (found.checkpoint.id, [one.version for one in found.blobs]) == ("id-7", ["7"])


def test_a_step_without_a_change_of_a_channel_keeps_its_value(record: Checkpoints) -> None:
    put(record, step(1), [blob("a", "1"), blob("b", "1"), blob("c", "1")], ["a", "b", "c"])
    put(record, step(2), [blob("a", "2")], ["a", "c"])
    found = record.get("thread", "")
    assert found is not None
    assert sorted((one.channel, one.version) for one in found.blobs) == [("a", "2"), ("b", "1")]


def test_the_same_step_may_be_put_again(record: Checkpoints, engine: Engine) -> None:
    put(record, step(1), [blob("a", "1")], ["a"])
    put_writes(record, "thread", "", "id-1", [write("task")])
    put(record, step(1), [blob("a", "1")], ["a"])
    assert rows(engine) == [1, 1, 1]


def test_a_clock_that_was_set_back_does_not_bring_back_an_old_step(record: Checkpoints, engine: Engine) -> None:
    put(record, step(9), [blob("a", "1")], ["a"])
    put_writes(record, "thread", "", "id-9", [write("task")])
    put(record, step(3), [blob("a", "2")], ["a"])
    found = record.get("thread", "")
    assert found is not None
    assert found.checkpoint.id == "id-3"
    assert rows(engine) == [1, 1, 0]


def test_writes_are_in_the_order_of_their_tasks_places(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put_writes(record, "thread", "", "id-1", [write("t1", 0, "~2"), write("t1", 1, "~2")])
    put_writes(record, "thread", "", "id-1", [write("t9", 0, "~1")])
    found = record.get("thread", "")
    assert found is not None
    assert [(one.task_id, one.number) for one in found.writes] == [("t9", 0), ("t1", 0), ("t1", 1)]


def test_a_write_stays_as_it_was_but_for_those_of_langgraphs_own_channels(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put_writes(record, "thread", "", "id-1", [write("t", 0, data=b"first"), write("t", -1, data=b"first")])
    put_writes(record, "thread", "", "id-1", [write("t", 0, data=b"again"), write("t", -1, data=b"again"), write("t", 1)])
    found = record.get("thread", "")
    assert found is not None
    assert [(one.number, one.data) for one in found.writes] == [(-1, b"again"), (0, b"first"), (1, b"x")]


def test_writes_that_are_faster_than_their_step_stay(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put_writes(record, "thread", "", "id-2", [write("t")])
    put(record, step(2), [], [])
    found = record.get("thread", "")
    assert found is not None
    assert len(found.writes) == 1


def test_graphs_inside_a_step_last_as_long_as_the_step(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put_writes(record, "thread", "", "id-1", [write("t")])
    put(record, step(11, "tools:x", root="id-1"), [blob("a", "1")], ["a"])
    put_writes(record, "thread", "tools:x", "id-11", [write("u")])
    put(record, step(21, "tools:x|deep:y", **{"root": "id-1", "tools:x": "id-11"}), [blob("a", "1")], ["a"])
    put(record, step(12, "tools:x", root="id-1"), [], [])
    assert {one.checkpoint.ns for one in record.list("thread")} == {"", "tools:x"}
    root = record.get("thread", "")
    assert root is not None
    assert len(root.writes) == 1
    put(record, step(2), [], [])
    assert [one.checkpoint.ns for one in record.list("thread")] == [""]


def test_graphs_of_the_next_step_that_are_faster_than_it_stay(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put(record, step(31, "tools:z", root="id-2"), [blob("a", "1")], ["a"])
    put(record, step(2), [], [])
    assert {one.checkpoint.ns for one in record.list("thread")} == {"", "tools:z"}


def test_a_graph_that_a_node_keeps_from_run_to_run_stays(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put(record, step(11, "memory", root="id-1"), [blob("a", "1")], ["a"])
    put(record, step(2), [], [])
    assert {one.checkpoint.ns for one in record.list("thread")} == {"", "memory"}


def test_a_name_that_looks_like_a_pattern_is_none(record: Checkpoints) -> None:
    put(record, step(1, "a%"), [], [])
    put(record, step(5, "ab|t:1", **{"a%": "id-1"}), [], [])
    put(record, step(2, "a%"), [], [])
    assert {one.checkpoint.ns for one in record.list("thread")} == {"a%", "ab|t:1"}


def test_the_list_is_of_a_thread_and_a_graph_newest_first(record: Checkpoints) -> None:
    put(record, step(1), [], [])
    put(record, step(5, "tools:x", root="id-1"), [], [])
    assert [one.checkpoint.id for one in record.list()] == ["id-5", "id-1"]
    assert [one.checkpoint.id for one in record.list("thread", "tools:x")] == ["id-5"]
    assert record.list("other") == []


def test_a_deleted_thread_leaves_nothing(record: Checkpoints, engine: Engine) -> None:
    put(record, step(1), [blob("a", "1")], ["a"])
    put_writes(record, "thread", "", "id-1", [write("t")])
    record.delete_thread("thread")
    assert rows(engine) == [0, 0, 0]


def test_a_run_that_is_forgotten_takes_its_checkpoints_along(
    record: Checkpoints, engine: Engine, store: Store, lease: Lease
) -> None:
    put(record, step(1), [blob("a", "1")], ["a"])
    put_writes(record, "thread", "", "id-1", [write("t")])
    store.finish(lease, RunStatus.SUCCESS)
    store.forget(["run-a"])
    assert rows(engine) == [0, 0, 0]


def test_a_worker_whose_lease_is_over_writes_nothing(record: Checkpoints, engine: Engine, store: Store, clock) -> None:
    put(record, step(1), [blob("a", "1")], ["a"])
    clock.advance(LEASE_TTL + 1)
    assert store.claim("run-a", "w2") is not None
    for late in (
        lambda: put(record, step(2), [blob("a", "2")], ["a"]),
        lambda: put_writes(record, "thread", "", "id-1", [write("t")]),
        lambda: record.delete_thread("thread"),
    ):
        with pytest.raises(StaleLease, match="run run-a: the lease 1 of w1 is over"):
            late()
    assert rows(engine) == [1, 1, 0]


def test_a_run_that_has_ended_takes_no_checkpoint(record: Checkpoints, store: Store, lease: Lease) -> None:
    store.finish(lease, RunStatus.SUCCESS)
    with pytest.raises(StaleLease):
        put(record, step(1), [], [])


def test_the_next_worker_finds_what_the_one_before_has_put(record: Checkpoints, engine: Engine, store: Store, clock) -> None:
    put(record, step(1), [blob("a", "1")], ["a"])
    clock.advance(LEASE_TTL + 1)
    second = store.claim("run-a", "w2")
    assert second is not None
    assert Checkpoints(engine, second).get("thread", "") == record.get("thread", "")


def test_another_run_sees_nothing_of_it_and_cannot_take_its_thread(
    record: Checkpoints, engine: Engine, begin: Callable[[str], Lease]
) -> None:
    put(record, step(1), [blob("a", "1")], ["a"])
    other = Checkpoints(engine, begin("run-b"))
    assert other.get("thread", "") is None
    assert other.list() == []
    with pytest.raises(InfrastructureError):
        put(other, step(1), [], [])
    other.delete_thread("thread")
    assert record.get("thread", "") is not None
