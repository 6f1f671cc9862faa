"""A request that comes twice is done once, on both databases."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.errors import BadInput, Conflict, NotFound
from orchestrator.runs.idempotency import KEPT, Idempotency
from orchestrator.runs.schema import open_database
from orchestrator.service.once import Once, digest_of


class Made:
    """Things that were made, by their ids."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._lock = threading.Lock()
        self._next = iter(range(10**6))

    def new_id(self) -> str:
        with self._lock:
            return f"new-{next(self._next)}"

    def find(self, made_id: str) -> str:
        if made_id not in self.ids:
            raise NotFound(made_id)
        return made_id

    def make(self, made_id: str) -> str:
        self.ids.append(made_id)
        return made_id


def do(once: Once, made: Made, key: str | None, digest: str = "d") -> str:
    return once.do(key, digest, new_id=made.new_id, find=made.find, make=made.make)


@pytest.fixture
def keys(database: str, tmp_path: Path) -> Iterator[Idempotency]:
    opened = Idempotency(open_database(database, tmp_path / "lock"), tmp_path / "requests")
    yield opened
    opened.close()


def test_the_same_request_is_done_once(keys: Idempotency) -> None:
    once, made = Once(keys, "acme"), Made()
    assert do(once, made, "k") == do(once, made, "k")
    assert len(made.ids) == 1
    with pytest.raises(Conflict, match="'k'"):
        do(once, made, "k", "other")


def test_without_a_key_each_is_done(keys: Idempotency) -> None:
    once, made = Once(keys, "acme"), Made()
    assert do(once, made, None) != do(once, made, None)


def test_tenants_do_not_share_keys(keys: Idempotency) -> None:
    made = Made()
    assert do(Once(keys, "acme"), made, "k") != do(Once(keys, "other"), made, "k", "other")


def test_many_at_once_make_one(keys: Idempotency) -> None:
    once, made, barrier = Once(keys, "acme"), Made(), threading.Barrier(20)

    def ask(_: int) -> str:
        barrier.wait()
        return do(once, made, "k")

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(ask, range(20)))) == 1
    assert len(made.ids) == 1


def test_what_failed_is_tried_again_under_the_same_id(keys: Idempotency) -> None:
    once, made, asked = Once(keys, "acme"), Made(), []

    def fail(made_id: str) -> str:
        asked.append(made_id)
        raise BadInput("no")

    with pytest.raises(BadInput):
        once.do("k", "d", new_id=made.new_id, find=made.find, make=fail)
    assert do(once, made, "k") == asked[0]


def test_what_was_made_and_is_gone_is_not_made_again(keys: Idempotency) -> None:
    once, made = Once(keys, "acme"), Made()
    do(once, made, "k")
    made.ids.clear()
    with pytest.raises(NotFound):
        do(once, made, "k")
    assert made.ids == []


def test_a_key_is_forgotten_after_a_day(database: str, tmp_path: Path) -> None:
    from tests.unit.orchestrator.runs.conftest import Clock

    clock = Clock()
    keys = Idempotency(open_database(database, tmp_path / "lock"), tmp_path / "requests", clock)
    once, made = Once(keys, "acme"), Made()
    first = do(once, made, "k")
    clock.advance(KEPT - 60)
    assert do(once, made, "k") == first
    clock.advance(120)
    assert do(once, made, "k", "other") != first
    keys.close()


def _hold(database: str, folder: Path, held: object) -> None:
    keys = Idempotency(open_database(database, folder / "lock"), folder / "requests")
    with keys.alone("acme", "k"):
        keys.claim("acme", "k", "d", "named-before")
        held.set()  # type: ignore[attr-defined]
        signal.pause()


def test_a_request_whose_process_was_killed_is_done_by_the_next_under_its_id(
    keys: Idempotency, database: str, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=_hold, args=(database, tmp_path, held))
    process.start()
    assert held.wait(60)
    made = Made()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(do, Once(keys, "acme"), made, "k")
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert waiting.result(timeout=60) == "named-before"
    assert made.ids == ["named-before"]


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256, "a\n"])
def test_what_cannot_be_a_key_is_refused(keys: Idempotency, key: str) -> None:
    with pytest.raises(BadInput, match="Idempotency-Key"):
        do(Once(keys, "acme"), Made(), key)


def test_a_digest_tells_requests_apart() -> None:
    assert digest_of("runs", {"a": 1, "b": 2}) == digest_of("runs", {"b": 2, "a": 1})
    assert digest_of("runs", {"a": 1}) != digest_of("retry", {"a": 1})
    assert digest_of("runs", b"x") != digest_of("runs", b"y")
