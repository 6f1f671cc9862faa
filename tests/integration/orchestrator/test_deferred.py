"""An agent whose sandbox nobody else needs has one from its first tool call on, and is gone on with before it as after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.runs.models import Event, Run, RunStatus
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from tests.integration.orchestrator.conftest import working

THINKS = [{"text": "done"}]
ASKS = [{"tool_calls": [{"id": "one", "name": "execute", "args": {"command": "echo said"}}]}, {"text": "done"}]


@pytest.fixture(scope="module")
def service(new_home) -> Iterator[Service]:
    with new_home() as settings, Service(settings) as opened:
        yield opened


def submit(service: Service, folder: Path, turns: list[dict[str, Any]], **told: Any) -> str:
    (folder / "script.yaml").write_text(yaml.safe_dump({"turns": turns}))
    agent = {"prompt": "go", "model": "scripted:script.yaml", **told}
    return service.submit(RunSpec.model_validate({"agent": agent}), base_dir=folder).id


def ended(service: Service, run_id: str) -> tuple[Run, list[Event]]:
    events = list(service.follow(run_id))
    return service.get(run_id), events


def test_an_agent_that_calls_no_tool_has_no_sandbox(service: Service, tmp_path: Path) -> None:
    with working(service):
        run, events = ended(service, submit(service, tmp_path, THINKS))
    assert (run.status, run.error, run.sandbox) == (RunStatus.SUCCESS, None, None)
    assert [event.type for event in events] == ["run.started", "model.message", "run.finished"]


def test_it_has_one_from_the_first_call_on(service: Service, tmp_path: Path) -> None:
    with working(service):
        run, events = ended(service, submit(service, tmp_path, ASKS))
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    kinds = [event.type for event in events]
    assert kinds.index("tool.call") < kinds.index("sandbox.created") < kinds.index("tool.result")


@pytest.mark.parametrize("meanwhile", ["keep", "pause", "snapshot"])
def test_a_question_before_the_first_call_is_asked_once(service: Service, tmp_path: Path, meanwhile: str) -> None:
    with working(service):
        run_id = submit(service, tmp_path, ASKS, interrupt_on={"execute": True}, while_waiting=meanwhile)
        next(event for event in service.follow(run_id) if event.type == "run.interrupted")
    assert service.get(run_id).sandbox is None
    service.decide(run_id, [{"type": "approve"}])
    with working(service):
        run, events = ended(service, run_id)
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    kinds = [event.type for event in events]
    assert [kinds.count(kind) for kind in ("run.interrupted", "sandbox.created", "tool.result")] == [1, 1, 1]
