"""What was said in a thread: each run leaves it for the next, and only the one that holds its lease does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, func, insert, select, update

from orchestrator.errors import StaleLease
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.conversations import KEPT, Conversations
from orchestrator.runs.database import now
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease, NewRun
from orchestrator.runs.store import Store


@pytest.fixture
def engine(engine: Engine) -> Engine:
    with engine.begin() as connection:
        connection.execute(insert(s.threads).values(id="thr-a", tenant="ann", created_at=now(), meta={}))
        connection.execute(insert(s.threads).values(id="thr-b", tenant="bob", created_at=now(), meta={}))
    return engine


@pytest.fixture
def conversations(engine: Engine) -> Conversations:
    return Conversations(engine)


@pytest.fixture
def begin(engine: Engine, store: Store) -> Callable[[str, str | None], Lease]:
    """A worker begins a run of a thread."""

    def begin(run_id: str, thread_id: str | None = "thr-a") -> Lease:
        store.add(NewRun(run_id, "name", {}, tenant="ann"))
        lease = store.claim(run_id, "w1")
        assert lease is not None
        move(engine, run_id, thread_id)
        return lease

    return begin


def move(engine: Engine, run_id: str, thread_id: str | None) -> None:
    with engine.begin() as connection:
        connection.execute(update(t.runs).where(t.runs.c.id == run_id).values(thread_id=thread_id))


def test_the_last_run_of_a_thread_leaves_the_conversation_that_holds(
    conversations: Conversations, begin: Callable[..., Lease]
) -> None:
    assert conversations.latest("thr-a") is None
    assert conversations.save(begin("run-a"), b'{"messages": []}') == 1
    assert conversations.save(begin("run-b"), b"\x00second", kind="other") == 2
    found = conversations.latest("thr-a")
    assert found is not None
    assert (found.thread_id, found.number, found.run_id, found.kind, found.data) == (
        "thr-a",
        2,
        "run-b",
        "other",
        b"\x00second",
    )
    assert abs((now() - found.at).total_seconds()) < 3600
    assert conversations.latest("thr-b") is None


def test_a_thread_keeps_its_last_conversations_only(
    conversations: Conversations, begin: Callable[..., Lease], engine: Engine
) -> None:
    lease = begin("run-a")
    assert conversations.save(begin("run-b", "thr-b"), b"other") == 1
    assert [conversations.save(lease, b"%d" % n) for n in range(1, 6)] == [1, 2, 3, 4, 5]
    with engine.connect() as connection:
        query = select(s.conversations.c.number).where(s.conversations.c.thread_id == "thr-a")
        assert sorted(connection.execute(query).scalars()) == [4, 5]
        assert KEPT == 2
    assert conversations.latest("thr-b") is not None


def test_it_is_there_for_the_threads_tenant_alone(conversations: Conversations, begin: Callable[..., Lease]) -> None:
    conversations.save(begin("run-a"), b"said")
    assert conversations.latest("thr-a", tenant="ann") is not None
    assert conversations.latest("thr-a", tenant="bob") is None


@pytest.mark.parametrize("thread_id", [None, "thr-gone"])
def test_a_run_without_a_thread_saves_nothing(
    conversations: Conversations, begin: Callable[..., Lease], engine: Engine, thread_id: str | None
) -> None:
    lease = begin("run-a")
    move(engine, "run-a", thread_id)
    assert conversations.save(lease, b"said") is None
    with engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(s.conversations)).scalar_one() == 0


@pytest.mark.parametrize("thread_id", [None, "thr-a"])
def test_a_worker_whose_lease_is_over_saves_nothing(
    conversations: Conversations, begin: Callable[..., Lease], store: Store, clock, thread_id: str | None
) -> None:
    lease = begin("run-a", thread_id)
    clock.advance(LEASE_TTL + 1)
    assert store.claim("run-a", "w2") is not None
    with pytest.raises(StaleLease):
        conversations.save(lease, b"said")
    assert conversations.latest("thr-a") is None
