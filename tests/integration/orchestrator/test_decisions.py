"""A person decides about what an agent wants to do: the run waits without a worker, and any worker goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.errors import BadInput, IllegalTransition
from orchestrator.runs.models import Event, Run, RunStatus
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import working

TURNS = [
    {"tool_calls": [{"id": "before", "name": "write_file", "args": {"file_path": "before", "content": "kept\n"}}]},
    {
        "tool_calls": [
            {"id": "one", "name": "execute", "args": {"command": "echo one >> ledger"}},
            {"id": "two", "name": "execute", "args": {"command": "cat before; echo two >> ledger"}},
        ]
    },
    {"text": "done"},
]
APPROVED = [{"type": "approve"}, {"type": "approve"}]


@pytest.fixture(scope="module")
def home(new_home) -> Iterator[tuple[Settings, Service]]:
    with new_home() as settings, Service(settings) as service:
        yield settings, service


@pytest.fixture
def submit(home, tmp_path: Path) -> Callable[..., str]:
    _, service = home
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"turns": TURNS}))

    def one(**told: Any) -> str:
        agent = {"prompt": "go", "model": "scripted:script.yaml", "interrupt_on": {"execute": True}, **told}
        spec = RunSpec.model_validate({"agent": agent, "outputs": {"files": ["ledger"]}})
        return service.submit(spec, base_dir=tmp_path).id

    return one


def sandboxes(settings: Settings, run_id: str) -> list[str]:
    return [one.id for one in portal.run(get_provider("local", home=settings.home).find({"fanfold.run": run_id}))]


def interrupted(service: Service, run_id: str) -> Run:
    for event in service.follow(run_id):
        if event.type == "run.interrupted":
            break
    return service.get(run_id)


def ended(service: Service, run_id: str) -> tuple[Run, list[Event]]:
    for _ in service.follow(run_id):
        pass
    return service.get(run_id), list(service.events(run_id))


@pytest.mark.parametrize("meanwhile", ["keep", "pause", "snapshot"])
def test_an_interrupted_run_holds_no_worker_and_goes_on_with_another_one(home, submit, until, meanwhile: str) -> None:
    settings, service = home
    with working(service):
        run_id = submit(while_waiting=meanwhile)
        run = interrupted(service, run_id)
        assert run.interrupt is not None
        assert [(one["name"], one["args"]["command"]) for one in run.interrupt["actions"]] == [
            ("execute", "echo one >> ledger"), ("execute", "cat before; echo two >> ledger"),
        ]  # fmt: skip
    kept = 0 if meanwhile == "snapshot" else 1
    until(lambda: len(sandboxes(settings, run_id)) == kept, "the sandbox is kept, or gone")
    with pytest.raises(BadInput, match="asks about 2 actions, and 1 decisions"):
        service.decide(run_id, [{"type": "approve"}])
    assert service.decide(run_id, APPROVED).status is RunStatus.PENDING
    with pytest.raises(IllegalTransition, match="asks for no decision"):
        service.decide(run_id, APPROVED)
    with working(service):
        run, events = ended(service, run_id)
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    with service.open_artifact(run_id, "files/ledger") as file:
        assert sorted(file.read().split()) == [b"one", b"two"]
    results = {event.data["id"]: event.data["text"] for event in events if event.type == "tool.result"}
    assert "kept" in results["two"]
    assert [one.status for one in service.attempts(run_id)] == ["interrupted", "success"]
    assert [event.type for event in events].count("sandbox.created") == (2 if meanwhile == "snapshot" else 1)
    assert sandboxes(settings, run_id) == []


def test_each_call_gets_its_own_decision(home, submit) -> None:
    _, service = home
    edited = {"type": "edit", "edited_action": {"name": "execute", "args": {"command": "echo edited >> ledger"}}}
    with working(service):
        run_id = submit()
        interrupted(service, run_id)
        service.decide(run_id, [{"type": "reject", "message": "not this one"}, edited])
        run, events = ended(service, run_id)
    assert run.status is RunStatus.SUCCESS
    with service.open_artifact(run_id, "files/ledger") as file:
        assert file.read() == b"edited\n"
    results = {event.data["id"]: event.data["text"] for event in events if event.type == "tool.result"}
    assert "not this one" in results["one"]


def test_cancelling_an_interrupted_run_ends_it_and_its_sandbox_at_once(home, submit, until) -> None:
    settings, service = home
    with working(service):
        run_id = submit()
        interrupted(service, run_id)
        assert service.cancel(run_id).status is RunStatus.CANCELLED
        until(lambda: sandboxes(settings, run_id) == [], "the sandbox is gone")


def test_a_question_that_nobody_answers_expires_and_its_sandbox_goes(home, submit, until) -> None:
    settings, service = home
    with working(service):
        run_id = submit(decide_within="1s")
        run, _ = ended(service, run_id)
        assert (run.status, run.exit_code) == (RunStatus.TIMEOUT, 4)
        assert "nobody decided" in (run.error.message if run.error else "")
        until(lambda: sandboxes(settings, run_id) == [], "the sandbox is gone")
