"""What the command line changes in a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.options import folder, variables
from orchestrator.cli.overrides import Overrides, validated
from orchestrator.errors import BadInput
from orchestrator.spec import RunSpec

COMMAND = RunSpec.model_validate({"command": "make", "sandbox": {"env": {"A": "1"}, "network": "public"}, "timeout": "2m"})
AGENT = RunSpec.model_validate({"agent": {"prompt": "mend it", "model": "scripted:a.yaml"}, "inputs": {"path": "repo"}})


def test_nothing_given_changes_nothing() -> None:
    assert Overrides().apply(COMMAND) == COMMAND
    assert Overrides().apply(AGENT) == AGENT


def test_what_is_given_replaces_what_the_task_says() -> None:
    spec = Overrides(provider="docker", timeout="90s", retries=2, env={"B": "2"}).apply(COMMAND)

    assert (spec.sandbox.provider, spec.timeout, spec.retries) == ("docker", 90.0, 2)
    assert spec.sandbox.env == {"A": "1", "B": "2"}
    assert spec.sandbox.network == "public"


def test_another_folder_keeps_what_the_task_leaves_out() -> None:
    task = RunSpec.model_validate({"command": "make", "inputs": {"git": {"url": "x"}, "exclude": ["node_modules"]}})

    inputs = Overrides(inputs=Path("/src")).apply(task).inputs

    assert inputs is not None
    assert (inputs.path, inputs.git, inputs.exclude) == ("/src", None, ("node_modules",))


def test_a_model_is_replaced() -> None:
    spec = Overrides(model="anthropic:some").apply(AGENT)

    assert spec.agent is not None
    assert (spec.agent.model, spec.agent.prompt) == ("anthropic:some", "mend it")


def test_a_model_is_replaced_in_all_children_that_are_agents() -> None:
    template = {"prompt": "mend ${{ item }}", "model": "scripted:${{ item }}.yaml"}
    tasks = [{"name": "a", "agent": {"prompt": "x", "model": "openai:x"}}, {"name": "b", "command": "x"}]
    for fan_out, models in ({"items": ["a", "b"], "agent": template}, ["openai:y"] * 2), ({"tasks": tasks}, ["openai:y", None]):
        spec = Overrides(model="openai:y").apply(RunSpec.model_validate({"fan_out": fan_out}))
        assert spec.fan_out is not None
        assert [child.agent and child.agent.model for child in spec.fan_out.children()] == models


@pytest.mark.parametrize("fan_out", [{"items": ["a"], "command": "x"}, {"tasks": [{"name": "a", "command": "x"}]}])
def test_children_that_are_commands_have_no_model(fan_out: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="--model openai:y: this task runs a command"):
        Overrides(model="openai:y").apply(RunSpec.model_validate({"fan_out": fan_out}))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (Overrides(model="openai:x"), "--model openai:x: this task runs a command"),
        (Overrides(timeout="soon"), "--timeout: 'soon' is not a duration"),
        (Overrides(timeout="0s"), "command line: timeout: "),
        (Overrides(provider=""), "command line: sandbox.provider: "),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(overrides: Overrides, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        overrides.apply(COMMAND)

    assert str(refused.value).startswith(message)


def test_the_rules_of_a_task_hold_for_the_command_line() -> None:
    with pytest.raises(BadInput, match=r"command line: sandbox.network: "):
        validated({"command": "x", "sandbox": {"network": "world"}}, "command line")


def test_variables_are_names_and_values() -> None:
    assert variables(["A=1", "B=x=y", "C="]) == {"A": "1", "B": "x=y", "C": ""}
    assert variables(None) == {}


@pytest.mark.parametrize("wrong", ["A", "=x", "1A=x", "A B=x"])
def test_a_variable_without_a_value_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match="write NAME=VALUE"):
        variables([wrong])


def test_a_folder_has_to_be_there(tmp_path: Path) -> None:
    assert folder("--path", tmp_path) == tmp_path.resolve()
    with pytest.raises(BadInput, match=r"--path .*: there is no such folder"):
        folder("--path", tmp_path / "missing")


def test_a_provider_of_the_command_line_stands_for_all_that_the_task_names() -> None:
    named = RunSpec.model_validate({"command": "x", "sandbox": {"providers": ["modal", "docker"]}})
    assert Overrides(provider="auto").apply(named).sandbox.asked == ("auto",)
    assert Overrides(timeout="90s").apply(named).sandbox.asked == ("modal", "docker")
