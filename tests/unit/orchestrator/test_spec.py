"""What a task file may say, and what is said about one that says something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.errors import BadInput
from orchestrator.spec import RunSpec, load_task


@pytest.fixture
def write(tmp_path: Path):
    def write_task(text: str, name: str = "task.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_task


def complaint_about(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load_task(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_whole_task_is_understood(write) -> None:
    spec = load_task(
        write(
            """
name: fix-the-bug
agent: {prompt: Mend it., model: "scripted:script.yaml", max_steps: 7}
sandbox:
  provider: docker
  image: python:3.12
  network: public
  env: {PORT: 8080}
  resources: {memory: 512MiB, cpu: 1.5}
inputs: {git: {url: ./repo, ref: main}, exclude: [node_modules]}
outputs: {files: ["reports/**/*.xml"]}
verify: make test
timeout: 10m
retries: 2
secrets: {API_KEY: "${MY_KEY}"}
"""
        )
    )
    assert spec.agent is not None
    assert spec.agent.max_steps == 7
    assert spec.timeout == 600
    assert spec.sandbox.env == {"PORT": "8080"}
    assert spec.secret_variables == {"API_KEY": "MY_KEY"}
    assert spec.wants_patch
    sandbox = spec.sandbox_spec()
    assert (sandbox.image, sandbox.network, sandbox.resources.memory) == ("python:3.12", "public", 512 * 1024**2)
    assert sandbox.lifetime > spec.timeout
    assert RunSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_a_command_alone_is_a_task_with_safe_defaults(write) -> None:
    spec = load_task(write("command: make test"))
    assert (spec.sandbox.provider, spec.sandbox.network, spec.timeout, spec.retries) == (None, "none", 1800, 0)
    assert not spec.wants_patch


def test_a_task_without_a_name_is_called_after_its_file_or_folder(write, tmp_path: Path) -> None:
    assert load_task(write("command: 'true'", "nightly.yaml")).name == "nightly"
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "task.yaml").write_text("command: 'true'")
    assert load_task(folder / "task.yaml").name == "shop"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("comand: ls", "task.yaml:1: comand: unknown key; did you mean 'command'?"),
        ("command: ls\nsandbox:\n  netwrk: none", "task.yaml:3: sandbox.netwrk: unknown key; did you mean 'network'?"),
        ("command: ls\nsandbox:\n  resources: {memroy: 1}", "sandbox.resources.memroy: unknown key; did you mean 'memory'?"),
        ("command: ls\ninputs: {git: {url: a, reff: b}}", "inputs.git.reff: unknown key; did you mean 'ref'?"),
        ("command: ls\nxyzzy: 1", "task.yaml:2: xyzzy: unknown key; known here: agent, budget, command,"),
        ("command: ls\nsandbox: {mounts: []}", "sandbox.mounts: what of the machine is shown in a sandbox is its operator's"),
        ("command: ls\nsandbox: {rootfs: /}", "sandbox.rootfs: what of the machine is shown in a sandbox is its operator's"),
        ("command: [ls]", "task.yaml:1: command: must be text, not a list"),
        ("command: ls\nretries: many", "task.yaml:2: retries: must be a whole number, not 'many'"),
        ("command: ls\nretries: 11", "retries: must be less than or equal to 10, not 11"),
        ("command: ls\ntimeout: 10 parsecs", "timeout: '10 parsecs' is not a duration"),
        ("command: ls\ntimeout: 0", "timeout: must be greater than 0, not 0"),
        ("command: ls\nsandbox: {resources: {memory: lots}}", "'lots' is not a size"),
        ("command: ls\nsandbox: [a]", "sandbox: must be a mapping, not a list"),
        ("command: ''", "command: must not be empty"),
        ("command: ls\nagent: {prompt: a, model: b}", "give exactly one of 'agent', 'command' and 'fan_out'"),
        ("name: x", "give exactly one of 'agent', 'command' and 'fan_out'"),
        ("agent: {model: 'scripted:a.yaml'}", "agent.prompt: is missing"),
        ("agent: {prompt: a, model: 'scripted:'}", "agent.model: 'scripted:' is not complete: write scripted:FILE"),
        ("agent: {prompt: a, model: 'record:x.yaml'}", "write record:FILE=PROVIDER:NAME"),
        ("command: ls\ninputs: {path: a, archive: b}", "exactly one of 'path', 'git' and 'archive', not path and archive"),
        ("command: ls\ninputs: {}", "inputs: give exactly one of 'path', 'git' and 'archive', not none"),
        ("command: ls\nsandbox: {workdir: /a/../b}", "sandbox.workdir: '/a/../b' is not a path in the sandbox"),
        ("command: ls\noutputs: {files: ['../x']}", "outputs.files.0: '../x' leads out of the task file's folder"),
        ("command: ls\nsecrets: {KEY: hunter2}", "secrets: write KEY: ${VARIABLE}; the value of a secret does not belong"),
        ("command: ls\nsecrets: {'a b': '${X}'}", "secrets: 'a b' cannot be the name of an environment variable"),
        ("command: ls\ntimeout: 1h\nsandbox: {lifetime: 1m}", "sandbox.lifetime is shorter than timeout"),
        ("name: \"a\\u001b[31m\"\ncommand: ls", "name: must be at most 100 letters"),
        ("- a\n- b", "task.yaml: a task is a mapping"),
        ("", "task.yaml: a task is a mapping"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, text: str, expected: str) -> None:
    message = complaint_about(write(text))
    assert expected in message
    assert "\n" not in message


def test_every_problem_has_its_own_line_in_the_order_of_the_file(write) -> None:
    message = complaint_about(write("name: x\nretries: many\ncomand: ls\ntimeout: never\n"))
    assert [line.split(":")[1] for line in message.splitlines()] == ["2", "3", "4"]


def test_the_value_of_a_secret_is_not_repeated(write) -> None:
    assert "hunter2" not in complaint_about(write("command: ls\nsecrets: {KEY: hunter2}"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert complaint_about(tmp_path / "nothing.yaml") == f"{tmp_path / 'nothing.yaml'}: there is no such file"


AGENT: dict[str, Any] = {"prompt": "Go.", "model": "openai:x"}


def agent(**fields: Any) -> RunSpec:
    return RunSpec.model_validate({"agent": {**AGENT, **fields}})


def test_an_agent_may_have_subagents_permissions_memory_and_skills() -> None:
    rules = [{"operations": ["write"], "paths": ["tests", "/srv/x"], "mode": "deny"}]
    helper = {"name": "helper", "description": "Helps.", "system_prompt": "Help.", "model": "openai:y"}
    found = agent(subagents=[helper], permissions=rules, memory=["AGENTS.md"], skills=["skills"])
    assert found.agent is not None
    assert found.agent.subagents[0].name == "helper"
    assert [mount.target for mount in found.closed] == ["/srv/x", "/workspace/tests"]
    assert found.hidden == ()
    assert agent(permissions=[{**rules[0], "operations": ["read"]}]).hidden == ("tests",)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"subagents": [{"name": "a", "description": "b", "system_prompt": "c", "tools": []}]}, "Extra inputs"),
        ({"subagents": [{"name": "a", "description": "b", "system_prompt": "c", "model": "scripted:x"}]}, "PROVIDER:NAME"),
        ({"subagents": [{"name": "a", "description": "b", "system_prompt": "c"}] * 2}, "there are two called 'a'"),
        ({"permissions": [{"operations": ["write"], "paths": ["*.py"], "mode": "deny"}]}, "pattern of names"),
        ({"permissions": [{"operations": ["write"], "paths": ["a/b"], "mode": "deny"}]}, "they could rename '/workspace/a'"),
        ({"permissions": [{"operations": ["write"], "paths": ["."], "mode": "deny"}]}, "cannot be closed as a whole"),
        ({"permissions": [{"operations": ["write"], "paths": ["../x"], "mode": "deny"}]}, "must not contain '..'"),
        ({"permissions": [{"operations": ["write"], "paths": ["a"], "mode": "interrupt"}]}, "'allow' or 'deny'"),
        ({"memory": ["/etc/passwd"]}, "leads out"),
        ({"skills": ["../skills"]}, "leads out"),
    ],
)
def test_what_cannot_be_had_of_an_agent_is_told_when_the_task_is_read(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        agent(**fields)


def test_a_sandbox_that_is_kept_lives_as_long_as_that(write) -> None:
    kept, plain = (
        load_task(write(f"command: ls\ntimeout: 1m\nsandbox: {{{more}}}")) for more in ("keep: always, keep_for: 2h", "")
    )
    assert kept.sandbox_spec().lifetime == plain.sandbox_spec().lifetime + 7200


@pytest.mark.parametrize(
    ("keep", "failed", "kept"),
    [("always", False, True), ("on-failure", True, True), ("on-failure", False, False), ("never", True, False)],
)
def test_whether_a_sandbox_is_kept(write, keep: str, failed: bool, kept: bool) -> None:
    assert load_task(write(f"command: ls\nsandbox: {{keep: {keep}}}")).sandbox.is_kept_after(failed=failed) is kept


def test_a_sandbox_is_kept_for_a_day_at_most(write) -> None:
    assert "keep_for" in complaint_about(write("command: ls\nsandbox: {keep_for: 25h}"))


@pytest.mark.parametrize(
    ("sandbox", "asked"),
    [
        ("{}", ("local",)),
        ("{provider: auto}", ("auto",)),
        ("{providers: [modal, docker]}", ("modal", "docker")),
        ("{providers: [docker], weaker_isolation: allow}", ("docker",)),
    ],
)
def test_a_task_names_one_provider_several_or_auto_and_the_record_keeps_it(write, sandbox: str, asked: tuple[str, ...]) -> None:
    spec = load_task(write(f"command: x\nsandbox: {sandbox}\n"))
    assert spec.sandbox.asked == asked
    assert RunSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert RunSpec.model_validate(spec.model_dump(exclude_unset=True)) == spec


def test_only_a_task_that_names_no_provider_gets_that_of_the_installation(write) -> None:
    without = load_task(write("command: make\nsandbox: {image: x}"))
    assert without.with_default_provider("docker").sandbox.asked == ("docker",)
    for sandbox, asked in (("{provider: modal}", ("modal",)), ("{providers: [modal, local]}", ("modal", "local"))):
        named = load_task(write(f"command: make\nsandbox: {sandbox}"))
        assert named.with_default_provider("docker").sandbox.asked == asked
    assert RunSpec.model_validate(without.model_dump(mode="json")) == without


@pytest.mark.parametrize(
    ("sandbox", "told"),
    [
        ("{provider: docker, providers: [modal]}", "task.yaml:2: sandbox: give one of 'provider' (a name, or auto) and"),
        ("{provider: }", "give one of 'provider' (a name, or auto) and 'providers'"),
        ("{providers: []}", "sandbox.providers: "),
        ("{providers: [auto, docker]}", "sandbox.providers: 'auto' stands alone: write provider: auto"),
        ("{providers: [docker, docker]}", "sandbox.providers: a provider is named twice: docker, docker"),
        ("{weaker_isolation: maybe}", "sandbox.weaker_isolation: "),
    ],
)
def test_providers_that_make_no_sense_are_refused(write, sandbox: str, told: str) -> None:
    assert told in complaint_about(write(f"command: x\nsandbox: {sandbox}\n"))
