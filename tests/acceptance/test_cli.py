"""What a person, or a CI system, gets from `fanfold run`."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

Task = Callable[..., Path]
EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "fix-the-bug"
FORTY = EXAMPLES / "forty-bugs"


def problem(done: subprocess.CompletedProcess[str]) -> str:
    """The one message that a command that failed at once has said."""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("fanfold: error: ")
    return lines[0].removeprefix("fanfold: error: ")


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why the run failed, as its summary says."""
    assert "Traceback" not in done.stdout + done.stderr
    _, found, rest = done.stdout.partition("  reason     ")
    assert found, done.stdout + done.stderr
    return rest.splitlines()[0]


# What works


def test_an_agent_fixes_a_real_bug_and_its_patch_applies(anywhere: Any, tmp_path: Path) -> None:
    done = anywhere("run", EXAMPLE, "--out", tmp_path / "out")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "success  fix-the-bug" in done.stdout
    assert_mends(EXAMPLE / "repo", tmp_path)


@pytest.mark.timeout(300)
def test_forty_agents_mend_a_bug_each_and_their_one_patch_applies(fanfold: Any, tmp_path: Path) -> None:
    done = fanfold("run", FORTY, "--out", tmp_path / "out")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "children   40 of 40 succeeded" in done.stdout
    assert_mends(FORTY / "repo", tmp_path)


def assert_mends(repo: Path, place: Path) -> None:
    """The patch of a run makes the tests of the repository pass."""
    subprocess.run(["cp", "-r", repo, place / "repo"], check=True)
    subprocess.run(["git", "apply", place / "out" / "patch.diff"], cwd=place / "repo", check=True)
    subprocess.run(["python3", "-m", "unittest"], cwd=place / "repo", check=True, capture_output=True)


def test_a_command_runs_and_its_output_is_shown_in_dated_lines(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: echo hello"))

    assert done.returncode == 0
    assert any(line.endswith("|   hello") for line in done.stdout.splitlines())
    assert done.stderr == ""


def test_json_is_one_document_on_stdout_and_progress_is_on_stderr(fanfold: Any, task: Task) -> None:
    done = fanfold("run", task("command: echo hello > a.txt\noutputs: {files: [a.txt], patch: true}\n"), "-o", "json")

    document = json.loads(done.stdout)
    assert document["run"]["status"] == "success"
    assert document["run"]["exit_code"] == 0
    kept = {artifact["name"]: Path(artifact["path"]) for artifact in document["artifacts"]}
    assert kept["files/a.txt"].read_text() == "hello\n"
    assert "+hello" in kept["patch.diff"].read_text()
    assert "sandbox ready" in done.stderr


def test_json_lines_are_the_events(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: echo hello"), "-o", "jsonl")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "run.started"
    assert events[-1]["type"] == "run.finished"


def test_options_replace_what_the_task_says(anywhere: Any, task: Task, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("from elsewhere")
    file = task("command: 'cat file; echo $A $B'\ninputs: {path: missing}\nsandbox: {env: {A: 1, B: 2}}")

    done = anywhere("run", file, "-p", tmp_path / "elsewhere", "-e", "B=three")

    assert done.returncode == 0, done.stderr
    assert "from elsewhere1 three" in done.stdout


def test_a_granted_secret_reaches_the_command_and_nothing_else(anywhere: Any, task: Task) -> None:
    file = task("command: 'test \"$KEY\" = hush-hush && echo $KEY'\nsecrets: {KEY: \"${MY_KEY}\"}")

    done = anywhere("run", file, "--secret", "MY_KEY", MY_KEY="hush-hush")

    assert done.returncode == 0
    assert "hush-hush" not in done.stdout + done.stderr
    assert "***" in done.stdout


def test_a_junit_report_has_the_run_and_its_check(anywhere: Any, task: Task, tmp_path: Path) -> None:
    file = task("command: printf 'a\\033[31m\\001b'\nverify: exit 3\n")

    done = anywhere("run", file, "--junit", tmp_path / "junit.xml")

    suite = ET.parse(tmp_path / "junit.xml").getroot().find("testsuite")
    assert done.returncode == 1
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert [case.get("name") for case in suite.findall("testcase")] == ["run", "verify: exit 3"]


def test_a_dry_run_prints_the_resolved_task_and_runs_nothing(anywhere: Any, task: Task) -> None:
    before = anywhere("runs", "ls", "-o", "json").stdout

    done = anywhere("run", task("command: make"), "--timeout", "90s", "--dry-run", "-o", "json")

    assert json.loads(done.stdout)["timeout"] == 90.0
    assert anywhere("runs", "ls", "-o", "json").stdout == before


def test_a_dry_run_finds_what_is_missing(fanfold: Any, task: Task) -> None:
    done = fanfold("run", task("command: make\ninputs: {path: nowhere}"), "--dry-run")

    assert done.returncode == 2
    assert "nowhere" in problem(done)


FAN_OUT = "fan_out: {items: [a, b c], agent: {prompt: 'Mend ${{ item }}', model: 'scripted:${{ item }}.yaml'}}"


def test_children_are_checked_before_anything_runs(fanfold: Any, task: Task) -> None:
    file = task(FAN_OUT)
    (file.parent / "a.yaml").write_text("turns: [{text: done}]")
    assert problem(fanfold("run", file, "--dry-run")).startswith("model 'scripted:b c.yaml': there is no file 'b c.yaml'")
    (file.parent / "b c.yaml").write_text("turns: [{text: done}]")

    done = fanfold("run", file, "--dry-run", "-o", "json")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fan_out"]["items"] == ["a", "b c"]


@pytest.mark.parametrize("how", [[], ["--dry-run"]])
def test_more_children_than_the_operator_allows_are_refused(fanfold: Any, task: Task, how: list[str]) -> None:
    file = task("fan_out: {items: [a, b], command: 'true'}")
    (file.parent / "policy.yaml").write_text("fan_out: {max_children: 1}")

    done = fanfold("run", file, *how, FANFOLD_POLICY=str(file.parent / "policy.yaml"))

    assert done.returncode == 2
    assert "makes 2 children, and this installation allows a run 1" in problem(done)


# What goes wrong


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("command: make\ntimeout: [1]\n", "task.yaml:2: timeout: "),
        ("command: make\nsandbox: {netwrk: none}\n", "task.yaml:2: sandbox.netwrk: unknown key; did you mean 'network'?"),
        ("command: make\ninputs: {path: nowhere}\n", "nowhere"),
        ("command: make\ninputs: {path: ../elsewhere}\n", ".."),
        ("agent: {prompt: x, model: 'anthropic:some'}\n", "ANTHROPIC_API_KEY"),
        ("agent: {prompt: x, model: 'scripted:nowhere.yaml'}\n", "nowhere.yaml"),
        ("command: make\nsecrets: {A: '${HOME}'}\n", "--secret HOME"),
        ("just text\n", "a task is a mapping"),
        ("command: 'unclosed\n", "not valid YAML"),
    ],
)
def test_a_bad_task_is_one_clear_message_and_exit_code_2(anywhere: Any, task: Task, text: str, said: str) -> None:
    done = anywhere("run", task(text))

    assert done.returncode == 2
    assert said in problem(done)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--timeout", "soon"], "--timeout: 'soon' is not a duration"),
        (["--model", "openai:x"], "this task runs a command"),
        (["-p", "/nowhere"], "--path /nowhere: there is no such folder"),
        (["-e", "A"], "write NAME=VALUE"),
        (["--junit", "/nowhere/junit.xml"], "no file can be written there"),
        (["--out", "/proc/nowhere"], "--out /proc/nowhere"),
    ],
)
def test_a_bad_option_is_one_clear_message_and_exit_code_2(
    fanfold: Any, task: Task, arguments: list[str], said: str
) -> None:
    done = fanfold("run", task("command: make"), *arguments)

    assert done.returncode == 2
    assert said in problem(done)


def test_a_task_file_that_is_not_there_is_bad_input(fanfold: Any, tmp_path: Path) -> None:
    done = fanfold("run", tmp_path / "nowhere.yaml")

    assert done.returncode == 2
    assert "nowhere.yaml: there is no such file" in problem(done)


def test_a_variable_that_is_not_known_is_refused_with_a_suggestion(fanfold: Any, task: Task) -> None:
    done = fanfold("run", task("command: make"), FANFOLD_REDIS_ULR="x")

    assert done.returncode == 2
    assert "did you mean 'FANFOLD_REDIS_URL'?" in problem(done)


def test_a_list_of_providers_of_which_no_worker_can_use_any_is_refused_at_once(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: make\nsandbox: {providers: [modal, local]}\n"))

    assert done.returncode == 2
    said = problem(done)
    assert "modal: there is no key for it" in said
    assert "local: its isolation (process) is weaker than that of modal (machine)" in said


def test_an_unknown_provider_is_bad_input(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: make"), "--provider", "dokcer")

    assert done.returncode == 2
    assert "dokcer" in reason(done)
    assert "docker" in reason(done)


def test_a_command_that_fails_is_a_failed_task(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: exit 9"))

    assert done.returncode == 1
    assert "exit code 9" in reason(done)
    assert "error (task)" in done.stdout


def test_a_check_that_fails_is_a_failed_task(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: 'true'\nverify: test -e fixed\n"))

    assert done.returncode == 1
    assert "verify" in reason(done)


def test_a_script_that_runs_out_is_a_failed_task(anywhere: Any, task: Task) -> None:
    script = "turns:\n- text: I look\n  tool_calls: [{name: ls, args: {path: .}}]\n"

    done = anywhere("run", task("agent: {prompt: x, model: 'scripted:s.yaml'}", **{"s.yaml": script}))

    assert done.returncode == 1
    assert "ran out after 1 turn" in reason(done)


def test_a_run_that_takes_too_long_is_a_timeout(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: sleep 60"), "--timeout", "1s")

    assert done.returncode == 4
    assert "timeout of 1 s" in reason(done)


def test_a_failed_attempt_is_tried_again(anywhere: Any, task: Task) -> None:
    done = anywhere("run", task("command: exit 1"), "--retries", "1")

    assert done.returncode == 1
    assert " attempt 2" in done.stdout


def test_docker_that_does_not_run_is_an_infrastructure_error(without_docker: Any, task: Task) -> None:
    done = without_docker("run", task("command: make"), "--provider", "docker")

    assert done.returncode == 3
    assert "no.sock" in reason(done)


@pytest.mark.docker
def test_an_image_that_does_not_exist_is_bad_input(fanfold: Any, task: Task) -> None:
    file = task("command: make\nsandbox: {provider: docker, image: 'fanfold-test/nowhere:latest'}")

    done = fanfold("run", file)

    assert done.returncode == 2
    assert "fanfold-test/nowhere:latest" in reason(done)


@pytest.mark.docker
def test_the_same_example_runs_on_docker(fanfold: Any) -> None:
    done = fanfold("run", EXAMPLE, "--provider", "docker")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "sandbox ready on docker" in done.stdout
    assert "1 file changed" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_cancels_the_run_and_destroys_its_sandbox(anywhere: Any, task: Task, number: int) -> None:
    process = anywhere.start("run", task("command: 'echo begun; sleep 600'"))
    assert process.stdout is not None
    for line in process.stdout:
        if "begun" in line and "|" in line:
            break

    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert process.returncode == 130, out + err
    assert "cancelled" in out
    assert "Traceback" not in err
    assert anywhere.sandboxes() == []
