"""Those who follow runs share their looks at the record, and each is woken by what is news to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager

import pytest

from orchestrator.api.following import NEVER
from orchestrator.api.heads import LAST_POLL, Follower, Heads
from orchestrator.errors import RecordUnavailable
from orchestrator.runs.models import Head

SOON = 10.0
"""Seconds that a look in time takes even on a machine with other things to do."""
NOBODY = "memory://"
"""A broker that carries no word."""


class Record:
    """How far runs are, and what was asked about them."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}
        self.asked: list[set[str]] = []
        self.away = False
        self.stopping = False

    def look(self, run_ids: Collection[str]) -> Mapping[str, Head]:
        self.asked.append(set(run_ids))
        if self.away:
            raise RecordUnavailable("the record is away")
        return {run_id: self.heads[run_id] for run_id in run_ids if run_id in self.heads}


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
async def heads(record: Record) -> AsyncIterator[Heads]:
    made = Heads(record.look, NOBODY, stopping=lambda: record.stopping)
    made.start()
    yield made
    await made.close()


async def woken(follower: Follower, known: int) -> None:
    async with asyncio.timeout(SOON):
        await follower.news(known)


async def looks(record: Record, count: int) -> None:
    """Wait for so many more of them."""
    before = len(record.asked)
    async with asyncio.timeout(SOON):
        while len(record.asked) < before + count:  # noqa: ASYNC110 - the record wakes nobody
            await asyncio.sleep(0.01)


@asynccontextmanager
async def waiting(heads: Heads, record: Record, *, known: int, eager: bool) -> AsyncIterator[asyncio.Task[None]]:
    """Somebody waits for news of a run with three events that has been looked at; they come when the block is over."""
    record.heads["run-1"] = Head(3, ended=False)
    with heads.follow("run-1", eager=eager) as follower:
        waits = asyncio.create_task(woken(follower, known))
        await looks(record, 2)
        assert not waits.done()
        yield waits
        await waits


async def test_what_is_there_already_is_news(heads: Heads, record: Record) -> None:
    record.heads["run-1"] = Head(3, ended=False)
    with heads.follow("run-1", eager=True) as follower:
        await woken(follower, known=2)


async def test_who_knows_all_is_woken_by_the_next_event(heads: Heads, record: Record) -> None:
    async with waiting(heads, record, known=3, eager=True):
        record.heads["run-1"] = Head(4, ended=False)


async def test_who_waits_for_the_end_is_not_woken_by_events(heads: Heads, record: Record) -> None:
    async with waiting(heads, record, known=NEVER, eager=False) as waits:
        record.heads["run-1"] = Head(400, ended=False)
        await looks(record, 2)
        assert not waits.done()
        record.heads["run-1"] = Head(401, ended=True)


async def test_nothing_new_in_time_wakes_as_well(heads: Heads, record: Record) -> None:
    record.heads["run-1"] = Head(3, ended=False)
    with heads.follow("run-1", eager=True) as follower:
        async with asyncio.timeout(SOON):
            await follower.news(3, timeout=0.05)


async def test_a_thousand_who_wait_are_looked_at_together(heads: Heads, record: Record) -> None:
    runs = {f"run-{number}" for number in range(1000)}
    record.heads = dict.fromkeys(runs, Head(1, ended=False))
    with ExitStack() as followed:
        all_of_them = [
            asyncio.create_task(followed.enter_context(heads.follow(run, eager=True)).news(1)) for run in runs for _ in range(2)
        ]
        async with asyncio.timeout(SOON):
            while record.asked[-3:] != [runs] * 3:  # noqa: ASYNC110 - the record wakes nobody
                await asyncio.sleep(LAST_POLL / 2)
        assert not any(task.done() for task in all_of_them)
        record.heads = dict.fromkeys(runs, Head(2, ended=True))
        await asyncio.wait_for(asyncio.gather(*all_of_them), SOON)


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda record: setattr(record, "away", True), id="the record is away"),
        pytest.param(lambda record: record.heads.clear(), id="the run has gone"),
        pytest.param(lambda record: setattr(record, "stopping", True), id="the server ends"),
    ],
)
async def test_what_no_look_can_tell_is_left_to_who_follows(
    heads: Heads, record: Record, happens: Callable[[Record], object]
) -> None:
    async with waiting(heads, record, known=3, eager=True):
        happens(record)


async def test_looks_go_on_when_the_record_is_back(heads: Heads, record: Record) -> None:
    record.away = True
    with heads.follow("run-1", eager=True) as follower:
        await woken(follower, known=0)
        record.heads["run-1"] = Head(1, ended=False)
        record.away = False
        await woken(follower, known=0)


async def test_nobody_looks_when_nobody_follows(heads: Heads, record: Record) -> None:
    record.heads = {"run-1": Head(1, ended=False), "run-2": Head(1, ended=False)}
    with heads.follow("run-1", eager=True) as stays:
        with heads.follow("run-2", eager=True) as leaves, heads.follow("run-2", eager=True):
            await woken(leaves, known=0)
        await woken(stays, known=0)
        await looks(record, 2)
        assert record.asked[-1] == {"run-1"}
    await asyncio.sleep(2 * LAST_POLL)
    before = len(record.asked)
    await asyncio.sleep(2 * LAST_POLL)
    assert len(record.asked) == before
