"""A task with a secret written into it is refused, and the refusal does not tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput
from orchestrator.freeze import find_secrets
from orchestrator.spec import RunSpec

SECRET = "correct-horse-battery"


def found(task: dict[str, Any], **environ: str) -> None:
    spec = RunSpec.model_validate({"secrets": {"TOKEN": "${TOKEN}"}, **task})
    find_secrets(spec, {"TOKEN"}, {"TOKEN": SECRET, **environ})


@pytest.mark.parametrize(
    ("task", "place"),
    [
        ({"command": f"curl -H 'Key: {SECRET}'"}, "command"),
        ({"command": "true", "sandbox": {"env": {"OTHER": SECRET}}}, "sandbox.env.OTHER"),
        ({"command": "true", "verify": f"test {SECRET}"}, "verify"),
        ({"command": "true", "labels": {"key": SECRET}}, "labels.key"),
        ({"agent": {"model": "scripted:s.yaml", "prompt": f"Use {SECRET}."}}, "agent.prompt"),
    ],
)
def test_a_secret_in_any_text_of_the_task_is_refused(task: dict[str, Any], place: str) -> None:
    with pytest.raises(BadInput) as caught:
        found(task)
    assert str(caught.value).startswith(f"{place}: has the value of the secret TOKEN written into it")
    assert SECRET not in str(caught.value)


def test_the_key_of_the_model_is_one(tmp_path: Path) -> None:
    key = "key-of-the-model-0"
    with pytest.raises(BadInput, match=r"^agent\.prompt: has the value of the key of the model"):
        found({"agent": {"model": "anthropic:claude", "prompt": f"Your key: {key}"}}, ANTHROPIC_API_KEY=key)


def test_a_task_that_names_its_secret_and_one_with_a_common_word_for_a_secret_are_accepted() -> None:
    found({"command": 'curl -H "Key: $TOKEN"'})
    found({"command": "psql -U postgres"}, TOKEN="postgres")


def test_a_secret_that_a_childs_template_puts_together_is_one() -> None:
    with pytest.raises(BadInput) as caught:
        found({"fan_out": {"items": ["horse"], "command": "curl -H Key:correct-${{ item }}-battery"}})
    assert str(caught.value).startswith("the child horse.command: has the value of the secret TOKEN written into it")
    found({"fan_out": {"items": ["mule"], "command": "curl -H Key:correct-${{ item }}-battery"}})
