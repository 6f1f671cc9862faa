"""Several runs on one conversation: each begins with what was said before, and knows what becomes of one that was stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.errors import Conflict
from orchestrator.runs.models import RunStatus
from orchestrator.runs.threads import Multitask
from orchestrator.service import Service
from orchestrator.service.placing import Placing
from orchestrator.spec import RunSpec

Say = Callable[..., str]


@pytest.fixture(scope="module")
def service(settings) -> Iterator[Service]:
    with Service(settings) as opened:
        opened.ensure_worker()
        yield opened


@pytest.fixture
def say(service: Service, tmp_path: Path) -> Say:
    def one(thread_id: str, prompt: str, *turns: dict[str, Any], multitask: Multitask = Multitask.ENQUEUE) -> str:
        (tmp_path / "script.yaml").write_text(yaml.safe_dump({"turns": [*turns]}))
        spec = RunSpec.model_validate({"agent": {"prompt": prompt, "model": "scripted:script.yaml"}})
        placing = Placing(thread_id=thread_id, multitask=multitask)
        return service.submit(spec, base_dir=tmp_path, placing=placing).id

    return one


def ended(service: Service, run_id: str) -> RunStatus:
    for _ in service.follow(run_id):
        pass
    return service.get(run_id).status


def texts(service: Service, thread_id: str) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in service.threads.messages(thread_id) if message.text]


def slow(text: str) -> list[dict[str, Any]]:
    call = {"id": "wait", "name": "execute", "args": {"command": "sleep 60"}}
    return [{"text": text, "tool_calls": [call]}, {"text": "never said"}]


def test_a_run_begins_with_what_was_said_before(service: Service, say: Say) -> None:
    thread = service.threads.create({}).id
    assert ended(service, say(thread, "first question", {"text": "first answer"})) is RunStatus.SUCCESS
    assert ended(service, say(thread, "second question", {"text": "second answer"})) is RunStatus.SUCCESS
    assert texts(service, thread) == [
        ("user", "first question"), ("assistant", "first answer"), ("user", "second question"), ("assistant", "second answer"),
    ]  # fmt: skip


def test_runs_of_a_thread_come_one_after_the_other(service: Service, say: Say) -> None:
    thread = service.threads.create({}).id
    runs = [say(thread, f"question {n}", {"text": f"answer {n}"}) for n in range(4)]
    assert [ended(service, run_id) for run_id in runs] == [RunStatus.SUCCESS] * 4
    assert [text for role, text in texts(service, thread) if role == "assistant"] == [f"answer {n}" for n in range(4)]


@pytest.mark.parametrize("multitask", [Multitask.INTERRUPT, Multitask.ROLLBACK])
def test_what_a_stopped_run_said_stays_or_goes(service: Service, say: Say, multitask: Multitask) -> None:
    thread = service.threads.create({}).id
    first = say(thread, "slow question", *slow("I look"))
    next(event for event in service.follow(first) if event.type == "tool.call")
    with pytest.raises(Conflict):
        say(thread, "too early", {"text": "no"}, multitask=Multitask.REJECT)
    second = say(thread, "another question", {"text": "answer"}, multitask=multitask)
    assert ended(service, first) is RunStatus.CANCELLED
    assert ended(service, second) is RunStatus.SUCCESS
    said = [text for role, text in texts(service, thread) if role in ("user", "assistant")]
    stays = ["slow question", "I look"] if multitask is Multitask.INTERRUPT else []
    assert said == [*stays, "another question", "answer"]
