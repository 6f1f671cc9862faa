"""What a task that comes from elsewhere names, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.errors import BadInput
from orchestrator.fields import MAX_LABELS
from orchestrator.service.orders import RunOrder
from orchestrator.spec import RunSpec

UPLOAD = "upl-0123456789ab"


def order(task: dict[str, Any], **more: Any) -> RunOrder:
    return RunOrder.model_validate({"task": task, **more})


def test_an_upload_is_the_archive() -> None:
    for inputs in ({}, {"inputs": None}, {"inputs": {"exclude": ["x"]}}):
        made = order({"command": "true", **inputs}, uploads={"inputs": UPLOAD}).resolved(git=False)
        assert made.inputs is not None
        assert made.inputs.archive == UPLOAD
    assert made.inputs.exclude == ("x",)


@pytest.mark.parametrize(
    ("model", "resolved"),
    [
        ("scripted:any/where.yaml", f"scripted:{UPLOAD}"),
        ("replay:/etc/passwd", f"replay:{UPLOAD}"),
        ("record:c.yaml=scripted:x", f"record:c.yaml=scripted:{UPLOAD}"),
    ],
)
def test_an_upload_is_the_models_file(model: str, resolved: str) -> None:
    made = order({"agent": {"prompt": "x", "model": model}}, uploads={"model": UPLOAD}).resolved(git=False)
    assert made.agent is not None
    assert made.agent.model == resolved


@pytest.mark.parametrize("model", ["openai:gpt-5", "record:c.yaml=openai:gpt-5"])
def test_a_model_without_a_file_stays(model: str) -> None:
    made = order({"agent": {"prompt": "x", "model": model}}).resolved(git=False)
    assert made.agent is not None
    assert made.agent.model == model


@pytest.mark.parametrize("inner", ["openai:gpt-5", "scripted:x"])
def test_a_cassette_stays_inside(inner: str) -> None:
    uploads = {"model": UPLOAD} if inner.startswith("scripted") else {}
    with pytest.raises(BadInput, match="cassette"):
        order({"agent": {"prompt": "x", "model": f"record:/etc/c.yaml={inner}"}}, uploads=uploads).resolved(git=False)


def test_a_repository_is_the_operators_decision() -> None:
    task = {"command": "true", "inputs": {"git": {"url": "https://example.invalid/a"}}}
    with pytest.raises(BadInput, match="FANFOLD_API_GIT"):
        order(task).resolved(git=False)
    assert order(task).resolved(git=True).inputs is not None
    with pytest.raises(BadInput, match="names no files"):
        order({"command": "true", "inputs": {"git": {"url": "/srv/a"}}}).resolved(git=True)


def test_secrets_are_not_shown() -> None:
    made = order({"command": "true"}, secrets={"TOKEN": "hunter2"})
    assert "hunter2" not in repr(made)
    assert "hunter2" not in str(made)


@pytest.mark.parametrize(
    "labels",
    [{"A": "x"}, {"": "x"}, {"a" * 64: "x"}, {"a": "x" * 256}, {"a": "\0"}, {f"a{n}": "" for n in range(MAX_LABELS + 1)}],
)
def test_labels_are_bounded(labels: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        RunSpec.model_validate({"command": "true", "labels": labels})


def test_labels_and_priority_of_a_task_file() -> None:
    spec = RunSpec.model_validate({"command": "true", "labels": {"ci/job.id_1-x": 42}, "priority": -100})
    assert (spec.labels, spec.priority) == ({"ci/job.id_1-x": "42"}, -100)
    with pytest.raises(ValidationError):
        RunSpec.model_validate({"command": "true", "priority": -101})


CHILDREN = {"items": ["a"], "agent": {"prompt": "x", "model": "scripted:${{ item }}.yaml"}}
ASKED = {"rules": [{"path": "*", "policy": "ask"}], "resolver": {"model": "scripted:r.yaml"}}


@pytest.mark.parametrize(
    ("task", "place"),
    [
        ({"fan_out": CHILDREN}, "task.fan_out"),
        ({"agent": {"prompt": "x", "model": "openai:x", "merge": ASKED}}, "task.agent.merge.resolver"),
    ],
)
def test_only_the_agents_own_model_can_be_an_upload(task: dict[str, Any], place: str) -> None:
    with pytest.raises(BadInput) as caught:
        order(task).resolved(git=False)
    assert str(caught.value).startswith(f"{place}: the model 'scripted:")
    assert "use PROVIDER:NAME" in str(caught.value)


def test_children_without_files_are_ordered_like_any_task() -> None:
    task = {"fan_out": {**CHILDREN, "agent": {"prompt": "x", "model": "openai:x"}}}
    assert order(task).resolved(git=False).fan_out is not None
    with pytest.raises(BadInput, match="the task has no agent of its own"):
        order(task, uploads={"model": UPLOAD}).resolved(git=False)
