"""Fan-outs whose worker leaves, whose lease is taken away, or that somebody stops, all while children are at work."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import RecordUnavailable
from orchestrator.runs.database import now
from orchestrator.runs.family import Family
from orchestrator.runs.models import Event, Run, RunStatus, WorkerInfo
from orchestrator.runs.schema import open_database
from orchestrator.runs.spent import Spent
from orchestrator.runs.store import Store
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.worker.runner import Runner
from tests.integration.orchestrator.conftest import working
from tests.integration.orchestrator.fan_out_killed.audit import Ended, audit, left

LINES = "".join(f"line {n}\n" for n in range(1, 41))
COUNT = "for n in $(seq 1 40); do echo line $n; sleep 0.1; done"
SEEN = "first\nmore\nfirst\nmore\n"
LATER = timedelta(minutes=1)
"""Longer than a worker may be silent."""

Home = tuple[Settings, Service, Store]


@pytest.fixture
def home(new_home: Any) -> Iterator[Home]:
    with new_home() as settings, Service(settings) as service:
        store = Store(open_database(settings.database, settings.home / "database.lock"))
        yield settings, service, store
        store.close()


def submitted(service: Service, base: Path, command: str, **more: Any) -> str:
    """The id of a run with two children that execute this command."""
    project = base / "project"
    project.mkdir()
    for name in ("a.txt", "b.txt"):
        (project / name).write_text("first\n")
    fan_out = {"items": ["a", "b"], "command": command}
    task = {"inputs": {"path": "project"}, "fan_out": fan_out, "verify": "cat a.txt b.txt", **more}
    return service.submit(RunSpec.model_validate(task), base_dir=base).id


def at_work(service: Service, store: Store, run_id: str) -> list[Run]:
    """The children of a run, when each of them has said something."""
    next(event for event in service.follow(run_id) if event.type == "fan_out.started")
    children = Family(store.engine).children(run_id)
    for child in children:
        next(event for event in service.follow(child.id) if event.type == "command.output")
    return children


def ended(service: Service, run_id: str) -> Run:
    for _ in service.follow(run_id):
        pass
    return service.get(run_id)


def said(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.type == "command.output")


@contextmanager
def stopped(worker: subprocess.Popen[bytes]) -> Iterator[Callable[[], None]]:
    """A worker that stands still; what is yielded lets it go on."""
    worker.send_signal(signal.SIGSTOP)
    try:
        yield lambda: os.kill(worker.pid, signal.SIGCONT)
    finally:
        worker.send_signal(signal.SIGCONT)


def assert_whole(home: Home, run_id: str, attempts: int) -> None:
    """All was done, each child's part once, by so many attempts at it, and nothing is left."""
    settings, _, store = home
    assert asyncio.run(audit(settings, run_id, Ended({}), seen=SEEN, provider="local")) == []
    for child in Family(store.engine).children(run_id):
        assert (child.attempt, said(store.events(child.id))) == (attempts, LINES)


def test_a_worker_that_leaves_hands_over_the_children_too(home: Home, tmp_path: Path) -> None:
    _, service, store = home
    with working(service) as worker:
        run_id = submitted(service, tmp_path, f"{COUNT}; echo more >> ${{{{ item }}}}.txt")
        children = at_work(service, store, run_id)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    assert {store.get(one).status for one in (run_id, *(child.id for child in children))} == {RunStatus.PENDING}
    with working(service):
        assert ended(service, run_id).lost == 0
    assert_whole(home, run_id, attempts=2)


def test_a_worker_that_stood_still_for_long_does_nothing_more_to_the_children(home: Home, tmp_path: Path) -> None:
    _, service, store = home
    with working(service) as worker:
        run_id = submitted(service, tmp_path, f"{COUNT}; echo more >> ${{{{ item }}}}.txt")
        children = at_work(service, store, run_id)
        with stopped(worker) as wake, working(service):
            for child in children:
                next(event for event in service.follow(child.id) if event.type == "sandbox.adopted")
            wake()
            assert ended(service, run_id).attempt == 2
    assert_whole(home, run_id, attempts=2)


def test_children_are_left_when_the_parent_alone_is_somebody_elses(home: Home, until: Any, tmp_path: Path) -> None:
    _, service, store = home
    with working(service):
        run_id = submitted(service, tmp_path, f"{COUNT}; echo more >> ${{{{ item }}}}.txt")
        children = at_work(service, store, run_id)
        lease = Store(store.engine, lambda: now() + LATER).claim(run_id, "another")
        assert lease is not None
        until(lambda: {store.get(one.id).status for one in children} == {RunStatus.PENDING}, "the children are left")
        store.release(lease)
        assert ended(service, run_id).attempt == 3
    assert_whole(home, run_id, attempts=2)


class Away(Store):
    """A record that does not answer once when it is asked what was spent, after `begun`."""

    begun = False

    def spent(self, run_id: str) -> Spent:
        if self.begun:
            self.begun = False
            raise RecordUnavailable("the record is away")
        return super().spent(run_id)


async def test_children_are_left_when_the_record_was_away_for_a_moment(home: Home, until: Any, tmp_path: Path) -> None:
    settings, service, store = home
    store.worker_alive(WorkerInfo("first", "here", os.getpid(), 1, now(), now()))
    command = f"{COUNT}; sleep 10; echo more >> ${{{{ item }}}}.txt"  # longer than until the next look at what is spent
    run_id = submitted(service, tmp_path, command, budget={"sandbox_seconds": 600})
    away = Away(store.engine)
    runner = Runner(settings, away, "first", nudge=lambda _: None)
    execution = asyncio.create_task(runner.execute(run_id))
    await asyncio.to_thread(until, lambda: store.get(run_id).status is RunStatus.RUNNING, "somebody works on it")
    store.worker_gone("first")
    children = await asyncio.to_thread(at_work, service, store, run_id)
    away.begun = True
    await execution
    assert {store.get(child.id).status for child in children} == {RunStatus.PENDING}
    with working(service):
        await asyncio.to_thread(ended, service, run_id)
    await asyncio.to_thread(assert_whole, home, run_id, 2)


def test_who_stops_a_run_stops_its_children(home: Home, tmp_path: Path) -> None:
    settings, service, store = home
    with working(service):
        run_id = submitted(service, tmp_path, "echo begun; sleep 600")
        children = at_work(service, store, run_id)
        service.cancel(run_id)
        assert ended(service, run_id).status is RunStatus.CANCELLED
    assert {store.get(child.id).status for child in children} == {RunStatus.CANCELLED}
    assert asyncio.run(left(settings, "local", store.installation())) == []
