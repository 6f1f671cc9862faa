"""Runs whose worker goes, by force or by a signal: another one takes the live sandbox, and nothing happens twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.errors import RecordUnavailable
from orchestrator.runs.models import Event, Lease, Run, RunStatus, WorkerInfo
from orchestrator.runs.store import Store, now
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.worker.runner import Runner
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import working

CALLS = 6
"""Tool calls of the agents here, one after the other; each writes a line and takes a while."""


@pytest.fixture
def home(new_home) -> Iterator[tuple[Settings, Service]]:
    with new_home() as settings, Service(settings) as service:
        yield settings, service


def leave(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    assert process.wait(30) == (0 if how is signal.SIGTERM else -signal.SIGKILL)


def first(service: Service, run_id: str, wanted: Callable[[Event], bool], after: int = 0) -> Event:
    return next(event for event in service.follow(run_id, after) if wanted(event))


def ended(service: Service, run_id: str) -> tuple[Run, list[Event]]:
    for _ in service.follow(run_id):
        pass
    return service.get(run_id), list(service.events(run_id))


def content(service: Service, run_id: str, name: str) -> str:
    with service.open_artifact(run_id, name) as file:
        return file.read().decode()


def agent(base: Path, turns: list[dict[str, Any]], **more: Any) -> RunSpec:
    (base / "script.yaml").write_text(yaml.safe_dump({"turns": turns}))
    told = more.pop("agent", {})
    wanted = {"agent": {"prompt": "go", "model": "scripted:script.yaml", **told}, "outputs": {"files": ["ledger"]}, **more}
    return RunSpec.model_validate(wanted)


def ledger_turns(seconds: float) -> list[dict[str, Any]]:
    calls = [
        {"tool_calls": [{"id": f"c{n}", "name": "execute", "args": {"command": f"echo {n} >> ledger; sleep {seconds}"}}]}
        for n in range(CALLS)
    ]
    return [*calls, {"text": "done"}]


def assert_told_once(events: list[Event]) -> None:
    for kind in ("tool.call", "tool.result"):
        told = [event.data["id"] for event in events if event.type == kind]
        assert told == [f"c{n}" for n in range(CALLS)], kind
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_goes_on_under_another_worker_and_says_nothing_twice(home, tmp_path: Path, how: signal.Signals) -> None:
    settings, service = home
    count = "for n in $(seq 1 40); do echo line $n; sleep 0.1; done"
    with working(service) as worker:
        run_id = service.submit(RunSpec(command=count, verify="echo checked"), base_dir=tmp_path).id
        first(service, run_id, lambda event: event.type == "command.output")
        (sandbox,) = portal.run(get_provider("local", home=settings.home).find({"fanfold.run": run_id}))
        leave(worker, how)
    assert service.get(run_id).status is (RunStatus.PENDING if how is signal.SIGTERM else RunStatus.RUNNING)
    with working(service):
        run, events = ended(service, run_id)
    assert (run.status, run.attempt, run.lost) == (RunStatus.SUCCESS, 2, 0 if how is signal.SIGTERM else 1)
    output = "".join(event.data["text"] for event in events if event.type == "command.output")
    assert output == "".join(f"line {n}\n" for n in range(1, 41))
    types = [event.type for event in events]
    assert types.count("sandbox.created") == types.count("sandbox.adopted") == types.count("command.started") == 1
    assert next(event for event in events if event.type == "sandbox.adopted").data["id"] == sandbox.id
    assert [one.status for one in service.attempts(run_id)] == ["released" if how is signal.SIGTERM else "lost", "success"]
    assert portal.run(get_provider("local", home=settings.home).find()) == []


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_agent_goes_on_at_its_last_step_and_no_tool_call_is_done_twice(home, tmp_path: Path, how: signal.Signals) -> None:
    _, service = home
    with working(service) as worker:
        run_id = service.submit(agent(tmp_path, ledger_turns(0.5)), base_dir=tmp_path).id
        first(service, run_id, lambda event: event.type == "tool.call" and event.data["id"] == "c2")
        leave(worker, how)
    with working(service):
        run, events = ended(service, run_id)
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert content(service, run_id, "files/ledger").split() == [str(n) for n in range(CALLS)]
    assert_told_once(events)


def test_an_agent_that_loses_worker_after_worker_does_each_call_once(home, tmp_path: Path) -> None:
    _, service = home
    run_id = service.submit(agent(tmp_path, ledger_turns(0.3)), base_dir=tmp_path).id
    for n in (0, 2, 4):
        with working(service) as worker:
            first(service, run_id, lambda event, n=n: event.type == "tool.call" and event.data["id"] == f"c{n}")
            leave(worker, signal.SIGKILL)
    with working(service):
        run, events = ended(service, run_id)
    assert (run.status, run.lost) == (RunStatus.SUCCESS, 3)
    assert content(service, run_id, "files/ledger").split() == [str(n) for n in range(CALLS)]
    assert_told_once(events)


def test_of_calls_made_at_the_same_time_those_that_ended_are_not_done_again(home, tmp_path: Path) -> None:
    _, service = home
    parallel = [
        {"id": f"c{n}", "name": "execute", "args": {"command": f"echo {n} >> ledger; sleep {0.4 * n}"}} for n in range(CALLS)
    ]
    turns = [{"tool_calls": parallel}, {"text": "done"}]
    with working(service) as worker:
        run_id = service.submit(agent(tmp_path, turns), base_dir=tmp_path).id
        first(service, run_id, lambda event: event.type == "tool.call" and event.data["id"] == f"c{CALLS - 1}")
        leave(worker, signal.SIGKILL)
    with working(service):
        run, events = ended(service, run_id)
    assert run.status is RunStatus.SUCCESS
    assert sorted(content(service, run_id, "files/ledger").split()) == [str(n) for n in range(CALLS)]
    assert sorted(event.data["id"] for event in events if event.type == "tool.result") == [f"c{n}" for n in range(CALLS)]


@pytest.mark.parametrize("on_loss", ["restart", "fail"])
def test_without_its_sandbox_a_run_begins_again_or_fails_as_its_task_says(home, tmp_path: Path, on_loss: str) -> None:
    settings, service = home
    spec = {"command": "test -e again || echo first; sleep 2", "sandbox": {"on_loss": on_loss}}
    with working(service) as worker:
        run_id = service.submit(RunSpec.model_validate(spec), base_dir=tmp_path).id
        first(service, run_id, lambda event: event.type == "command.output")
        leave(worker, signal.SIGKILL)
    provider = get_provider("local", home=settings.home)
    (sandbox,) = portal.run(provider.find({"fanfold.run": run_id}))
    portal.run(provider.destroy(sandbox))
    with working(service):
        run, events = ended(service, run_id)
    if on_loss == "restart":
        assert (run.status, [event.type for event in events].count("sandbox.created")) == (RunStatus.SUCCESS, 2)
    else:
        assert (run.status, run.error.kind if run.error else None) == (RunStatus.ERROR, "infrastructure")
        assert sandbox.id in (run.error.message if run.error else "")


@pytest.mark.parametrize("on_loss", ["restart", "fail"])
def test_a_sandbox_that_goes_under_a_live_worker_is_no_failure_of_the_task(home, tmp_path: Path, on_loss: str) -> None:
    settings, service = home
    spec = {"command": "echo begun; sleep 3", "sandbox": {"on_loss": on_loss}}
    with working(service):
        run_id = service.submit(RunSpec.model_validate(spec), base_dir=tmp_path).id
        first(service, run_id, lambda event: event.type == "command.output")
        provider = get_provider("local", home=settings.home)
        for handle in portal.run(provider.find({"fanfold.run": run_id})):
            portal.run(provider.destroy(handle))
        run, events = ended(service, run_id)
    if on_loss == "restart":
        assert (run.status, [event.type for event in events].count("sandbox.created")) == (RunStatus.SUCCESS, 2)
    else:
        assert (run.status, run.error.kind if run.error else None) == (RunStatus.ERROR, "infrastructure")


def test_a_worker_that_was_stopped_for_long_writes_nothing_when_it_wakes(home, until, tmp_path: Path) -> None:
    _, service = home
    with working(service) as worker:
        run_id = service.submit(agent(tmp_path, ledger_turns(0.5)), base_dir=tmp_path).id
        first(service, run_id, lambda event: event.type == "tool.call" and event.data["id"] == "c1")
        worker.send_signal(signal.SIGSTOP)
        try:
            with working(service):
                adopted = first(service, run_id, lambda event: event.type == "sandbox.adopted")
                os.kill(worker.pid, signal.SIGCONT)
                run, events = ended(service, run_id)
        finally:
            worker.send_signal(signal.SIGCONT)
    assert (run.status, run.attempt) == (RunStatus.SUCCESS, 2)
    assert content(service, run_id, "files/ledger").split() == [str(n) for n in range(CALLS)]
    assert_told_once(events)
    assert adopted.seq < events[-1].seq


class Forgetful(Store):
    """A record that is away when it is told of a sandbox for the first time; with `noted`, it is away after it has noted it."""

    away = True
    noted = False

    def set_sandbox(self, lease: Lease, handle: dict[str, Any], *, ready: bool = False) -> None:
        if self.noted or not self.away:
            super().set_sandbox(lease, handle, ready=ready)
        if self.away:
            self.away = False
            raise RecordUnavailable("the record is away")


@pytest.mark.parametrize("noted", [False, True])
async def test_a_sandbox_that_the_record_was_not_told_of_is_not_left(
    home: tuple[Settings, Service], tmp_path: Path, noted: bool
) -> None:
    settings, service = home
    store = Forgetful(service._of.engine)
    store.noted = noted
    store.worker_alive(WorkerInfo("first", "here", os.getpid(), 1, now(), now()))
    run_id = service.submit(RunSpec(command="echo begun"), base_dir=tmp_path).id
    await Runner(settings, store, "first", nudge=lambda _: None).execute(run_id)
    assert await get_provider("local", home=settings.home).find() == []

    store.worker_gone("first")
    with working(service):
        run, events = await asyncio.to_thread(ended, service, run_id)
    assert run.status is RunStatus.SUCCESS
    assert [event.data["text"] for event in events if event.type == "command.output"] == ["begun\n"]
