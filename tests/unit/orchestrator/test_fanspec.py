"""What `fan_out` of a task makes: its children, their names and templates, and what is said about one that cannot be."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.errors import BadInput
from orchestrator.fanspec import FanOutSpec
from orchestrator.fields import MAX_TEXT
from orchestrator.spec import RunSpec, load_task


def fan_out(**fields: Any) -> FanOutSpec:
    return FanOutSpec.model_validate(fields)


def commands(**fields: Any) -> list[str | None]:
    return [child.command for child in fan_out(**fields).children()]


def names(*items: Any) -> list[str]:
    return [child.name for child in fan_out(items=items, command="x").children()]


def complaint_about(tmp_path: Path, fields: str, *, rest: str = "") -> str:
    path = tmp_path / "task.yaml"
    path.write_text(f"name: t\nfan_out: {{{fields}}}\n{rest}")
    with pytest.raises(BadInput) as caught:
        load_task(path)
    return str(caught.value)


def test_each_item_is_a_child() -> None:
    found = fan_out(items=["calc", 3, 1.5, True], command="mend ${{ item }} ${{item}}").children()
    assert [child.name for child in found] == ["calc", "3", "1.5", "true"]
    assert [child.command for child in found] == ["mend calc calc", "mend 3 3", "mend 1.5 1.5", "mend true true"]


def test_the_fields_of_an_item_have_names() -> None:
    items = [{"name": "one", "file": "a b.py"}, {"file": "c.py", "line-no": 7}]
    assert commands(items=items, command="mend ${{ item.file }}") == ["mend 'a b.py'", "mend c.py"]
    assert names(*items) == ["one", "c.py-7"]


def test_a_matrix_is_every_combination_and_the_last_key_changes_fastest() -> None:
    matrix = {"python": ["3.11", "3.12"], "suite": ["unit", "api"]}
    found = fan_out(matrix=matrix, command="${{ matrix.suite }} ${{ matrix.python }}").children()
    assert [child.name for child in found] == ["3.11-unit", "3.11-api", "3.12-unit", "3.12-api"]
    assert [child.command for child in found] == ["unit 3.11", "api 3.11", "unit 3.12", "api 3.12"]


def test_tasks_are_taken_as_they_are() -> None:
    tasks = [{"name": "a", "command": "echo ${{ item }}"}, {"name": "b", "agent": {"prompt": "Go.", "model": "openai:x"}}]
    first, second = fan_out(tasks=tasks).children()
    assert (first.name, first.command, first.agent) == ("a", "echo ${{ item }}", None)
    assert (second.name, second.command) == ("b", None)
    assert second.agent is not None


@pytest.mark.parametrize("value", ["a b", "$(rm -rf /)", "it's", "", "-n", "`x`; y", "two\nlines", "${{ item }}"])
def test_a_value_is_one_word_of_the_command_whatever_it_says(value: str) -> None:
    (command,) = commands(items=[value], command="printf %s ${{ item }}")
    assert command is not None
    assert shlex.split(command) == ["printf", "%s", value]


def test_an_agents_texts_are_filled_and_the_rest_of_it_stays() -> None:
    agent = {
        "prompt": "Mend ${{ item }}!",
        "system_prompt": "For ${{ item }}.",
        "model": "scripted:${{ item }}.yaml",
        "max_steps": 7,
    }
    first, second = (child.agent for child in fan_out(items=["it's", "b"], agent=agent).children())
    assert first is not None
    assert second is not None
    assert (first.prompt, first.system_prompt, first.model) == ("Mend it's!", "For it's.", "scripted:it's.yaml")
    assert (second.prompt, second.max_steps) == ("Mend b!", 7)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("command: x", "fan_out: give exactly one of 'items', 'matrix' and 'tasks', not none"),
        ("items: [a], tasks: [], command: x", "not items and tasks"),
        ("items: [a]", "fan_out: give exactly one of 'command' and 'agent', not none"),
        ("items: [a], command: x, agent: {prompt: a, model: b}", "not command and agent"),
        ("tasks: [{name: a, command: x}], command: x", "fan_out.command: is for 'items' and 'matrix'"),
        ("items: [], command: x", "task.yaml:2: fan_out.items: has nothing to make a child of"),
        ("matrix: {}, command: x", "fan_out.matrix: has nothing to make a child of"),
        ("matrix: {a: [1], b: []}, command: x", "fan_out.matrix: has nothing to make a child of"),
        ("tasks: []", "fan_out.tasks: has nothing to make a child of"),
        ("items: [a, [b]], command: x", "fan_out.items.1: must be text, a number, true or false, not list"),
        (
            "items: [2024-01-01], command: x",
            "fan_out.items.0: must be text, a number, true or false, not date: write text in quotes",
        ),
        ("items: [null], command: x", "fan_out.items.0: must be text"),
        ("items: [.inf], command: x", "fan_out.items.0: must be a finite number"),
        ("matrix: {a: [1, .nan]}, command: x", "fan_out.matrix.a.1: must be a finite number"),
        ("items: [{a: {b: c}}], command: x", "fan_out.items.0: must be text"),
        ("items: [{}], command: x", "fan_out.items.0: is an empty mapping"),
        ("items: [{a b: c}], command: x", "'a b' cannot be a key of a placeholder"),
        ('items: ["\\0"], command: x', "fan_out.items.0: must not contain NUL"),
        ("matrix: {a b: [1]}, command: x", "'a b' cannot be a key of a placeholder"),
        ("matrix: {a: 1}, command: x", "fan_out.matrix.a: must be a list"),
        (
            "items: [a], command: 'x ${{ itm }}'",
            "fan_out.command: of the child 'a': '${{ itm }}' is no placeholder here; did you mean",
        ),
        ("items: [a], command: 'x ${{ env.HOME }}'", "'${{ env.HOME }}' is no placeholder here: there is ${{ item }}"),
        ("items: [a], command: 'x ${{ item'", "'${{ item' is no placeholder here"),
        (
            "items: [a, {b: c}], command: 'x ${{ item }}'",
            "of the child 'c': '${{ item }}' is no placeholder here; did you mean 'item.b'",
        ),
        ("items: [a], agent: {prompt: '${{ x.y }}', model: b}", "fan_out.agent.prompt: of the child 'a': '${{ x.y }}' is no"),
        (
            "items: [' '], agent: {prompt: '${{ item }}', model: b}",
            "fan_out.agent.prompt: of the child 'child-1': must not be empty",
        ),
        (
            "items: [':'], agent: {prompt: a, model: '${{ item }}'}",
            "fan_out.agent.model: of the child 'child-1': ':' is not a model",
        ),
        ("tasks: [{name: a, command: x}, {name: a, command: y}]", "fan_out.tasks.1.name: another child is called 'a'"),
        ("tasks: [{name: a/b, command: x}]", "fan_out.tasks.0.name: must be at most 60 letters, digits"),
        ("tasks: [{name: a}]", "fan_out.tasks.0: give exactly one of 'agent' and 'command'"),
        ("tasks: [{name: a, comand: x}]", "fan_out.tasks.0.comand: unknown key; did you mean 'command'?"),
        ("items: [a], command: x, max_paralel: 2", "fan_out.max_paralel: unknown key; did you mean 'max_parallel'?"),
        ("items: [a], command: x, max_parallel: 0", "fan_out.max_parallel: must be greater than 0"),
        ("items: [a], command: x, on_child_failure: ignore", "fan_out.on_child_failure: must be 'continue' or 'cancel'"),
        ("items: [a], command: x, files: [../x]", "fan_out.files.0: '../x' leads out"),
        ("items: [a], command: x, merge: {rules: [{path: a, policy: mine}]}", "fan_out.merge.rules.0.policy: must be"),
        (
            "items: [a], command: x, merge: {rules: [{path: a, policy: ask}]}",
            "fan_out.merge.rules.0.policy: `ask` needs somebody",
        ),
        ("items: [a], command: x, merge: {resolver: {model: b}}", "fan_out.merge.resolver: would never be asked"),
        ("items: [a], command: x, merge: {on_conflict: ignore}", "fan_out.merge.on_conflict: must be 'fail' or 'keep'"),
        (
            "items: [a], agent: {prompt: a, model: b, interrupt_on: {execute: true}}",
            "fan_out.agent.interrupt_on: children cannot ask",
        ),
        (
            "tasks: [{name: a, agent: {prompt: a, model: b, interrupt_on: {execute: true}}}]",
            "fan_out.tasks.0.agent.interrupt_on: children cannot ask",
        ),
        (
            "items: [a], agent: {prompt: a, model: b, permissions: [{operations: [write], paths: [a/b], mode: deny}]}",
            "fan_out.agent.permissions: '/workspace/a/b' cannot be closed to commands",
        ),
        (
            "tasks: [{name: a, agent: {prompt: a, model: 'openai:b'}}, {name: b, agent: {prompt: a, model: 'anthropic:b'}}]",
            "its models need the keys of anthropic and openai",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, fields: str, said: str) -> None:
    message = complaint_about(tmp_path, fields)
    assert said in message
    assert message.startswith("task.yaml")
    assert "\n" not in message


def test_a_child_cannot_outlive_its_sandbox(tmp_path: Path) -> None:
    rest = "timeout: 1m\nsandbox: {lifetime: 2m}"
    message = complaint_about(tmp_path, "items: [a], command: x, timeout: 3m", rest=rest)
    assert message == "task.yaml:2: fan_out.timeout: is longer than sandbox.lifetime: a child's sandbox would end under it"


def test_there_are_a_thousand_children_at_most() -> None:
    assert len(commands(items=list(range(1000)), command="x")) == 1000
    with pytest.raises(ValidationError, match="makes 1001 children; a fan-out has at most 1000"):
        fan_out(items=list(range(1001)), command="x")
    with pytest.raises(ValidationError, match="makes 1000000000000 children"):
        fan_out(matrix={key: list(range(1000)) for key in "abcd"}, command="x")


def test_templates_cannot_grow_without_end() -> None:
    with pytest.raises(ValidationError, match=f"comes to more than {MAX_TEXT} characters"):
        fan_out(items=["x" * 10_000], command="${{ item }}" * 40_000)
    with pytest.raises(ValidationError, match="for all children: put text in files"):
        fan_out(items=list(range(100)), command="x" * MAX_TEXT)


WHOLE: dict[str, Any] = {
    "name": "mend-all",
    "inputs": {"path": "project"},
    "sandbox": {"provider": "docker", "env": {"A": "b"}},
    "secrets": {"KEY": "${MINE}"},
    "labels": {"team": "ml"},
    "budget": {"tokens": 5},
    "verify": "make test",
    "timeout": 60,
    "fan_out": {
        "items": ["calc", "text"],
        "agent": {
            "prompt": "Mend ${{ item }}",
            "model": "scripted:${{ item }}.yaml",
            "permissions": [{"operations": ["write"], "paths": ["tests"], "mode": "deny"}],
        },
        "retries": 2,
        "files": ["*.xml"],
        "merge": {"rules": [{"path": "*.py", "policy": "ask"}], "resolver": {"model": "scripted:r.yaml"}, "verify": "make"},
    },
}


def test_a_child_is_a_run_of_its_own_in_the_same_kind_of_sandbox() -> None:
    spec = RunSpec.model_validate(WHOLE)
    assert spec.fan_out is not None
    child = spec.child(spec.fan_out.children()[0])
    assert child.agent is not None
    assert (child.name, child.agent.prompt, child.verify, child.inputs) == ("calc", "Mend calc", None, None)
    assert (child.sandbox, child.secrets, child.labels, child.budget) == (spec.sandbox, spec.secrets, spec.labels, spec.budget)
    assert (child.timeout, child.retries, child.outputs.files, child.wants_patch) == (60, 2, ("*.xml",), False)
    assert [mount.target for mount in child.closed] == ["/workspace/tests"]
    assert spec.closed == (), "the parent's own sandbox is nobody's workplace"
    assert RunSpec.model_validate(child.model_dump(mode="json")) == child


def test_a_task_that_fans_out_is_the_same_after_it_was_recorded() -> None:
    spec = RunSpec.model_validate(WHOLE)
    again = RunSpec.model_validate(spec.model_dump(mode="json"))
    assert again == spec
    assert again.fan_out is not None
    assert spec.fan_out is not None
    assert again.fan_out.children() == spec.fan_out.children()


def test_its_models_are_those_of_children_and_of_the_resolver() -> None:
    assert RunSpec.model_validate(WHOLE).models == ("scripted:calc.yaml", "scripted:text.yaml", "scripted:r.yaml")


def test_the_policy_of_a_merge_is_that_of_fanfold_merge() -> None:
    spec = RunSpec.model_validate(WHOLE)
    assert spec.fan_out is not None
    assert [(rule.pattern, rule.choice) for rule in spec.fan_out.merge.to_policy().rules] == [("*.py", "ask")]
    assert (spec.fan_out.merge.on_conflict, spec.fan_out.merge.verify_timeout) == ("fail", 600)
