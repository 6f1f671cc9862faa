"""A run from its submission to its end: real queue, real worker, real sandboxes of the local provider."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import BadInput, RunNotFound
from orchestrator.runs.models import Event, Run, RunStatus
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider

SECRET = "hunter2-integration"


class Finished:
    """A run that has ended, with all that is recorded of it."""

    def __init__(self, service: Service, run: Run, events: list[Event]) -> None:
        self.run, self.events = run, events
        self.types = [event.type for event in events]
        self.artifacts = {a.name: service.open_artifact(run.id, a.name).read() for a in service.artifacts(run.id)}

    def text(self, kind: str = "command.output", stream: str | None = None) -> str:
        wanted = [e for e in self.events if e.type == kind and stream in (None, e.data.get("stream"))]
        return "".join(e.data["text"] for e in wanted)


@pytest.fixture
def execute(service: Service, tmp_path: Path):
    def submit_and_follow(**spec: Any) -> Finished:
        options = {key: spec.pop(key) for key in ("granted", "environ", "named") if key in spec}
        run = service.submit(RunSpec.model_validate({"name": "test", **spec}), base_dir=tmp_path, **options)
        service.ensure_worker()
        events = list(service.follow(run.id))
        return Finished(service, service.get(run.id), events)

    return submit_and_follow


def sandboxes_left(settings: Settings) -> list[str]:
    return [handle.id for handle in portal.run(get_provider("local", home=settings.home).find())]


@pytest.fixture(autouse=True)
def no_sandbox_is_left(settings: Settings):
    yield
    assert sandboxes_left(settings) == []


def test_a_command_succeeds_and_tells_its_story_without_gaps(execute) -> None:
    done = execute(command="echo out; echo err >&2")
    assert (done.run.status, done.run.exit_code, done.run.error) == (RunStatus.SUCCESS, 0, None)
    assert (done.text(stream="stdout"), done.text(stream="stderr")) == ("out\n", "err\n")
    assert done.types[:3] == ["run.started", "sandbox.created", "command.started"]
    assert done.types[-2:] == ["command.finished", "run.finished"]
    assert [event.seq for event in done.events] == list(range(1, len(done.events) + 1))


def test_a_command_that_fails_fails_the_run_with_its_exit_code_told(execute) -> None:
    done = execute(command="exit 7")
    assert (done.run.status, done.run.exit_code) == (RunStatus.ERROR, 1)
    assert done.run.error is not None
    assert done.run.error.message == "the command failed with exit code 7"


def test_inputs_go_in_and_a_patch_that_git_applies_and_files_come_out(execute, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a.txt").write_text("one\n")
    done = execute(
        command="echo two >> a.txt; mkdir -p reports/deep; echo '<x/>' > reports/deep/r.xml; echo n > new.txt",
        inputs={"path": "repo"},
        outputs={"files": ["reports/**/*.xml", "nothing*"]},
        verify="grep -q two a.txt && echo checked",
    )
    assert done.run.status is RunStatus.SUCCESS
    assert done.text("verify.output") == "checked\n"
    assert done.artifacts["files/reports/deep/r.xml"] == b"<x/>\n"
    assert any("'nothing*' matches no file" in event.data.get("text", "") for event in done.events)
    subprocess.run(["git", "apply", "-"], cwd=repo, input=done.artifacts["patch.diff"], check=True)
    assert (repo / "a.txt").read_text() == "one\ntwo\n"
    assert (repo / "new.txt").read_text() == "n\n"


def test_a_check_that_fails_fails_the_run_and_what_it_left_is_kept(execute, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    done = execute(command="echo x > x.txt", inputs={"path": "repo"}, verify="exit 3")
    assert done.run.exit_code == 1
    assert done.run.error is not None
    assert done.run.error.message == "the check (`verify`) failed with exit code 3"
    assert b"x.txt" in done.artifacts["patch.diff"]


def test_a_run_that_takes_too_long_ends_as_timeout(execute) -> None:
    done = execute(command="echo begun; sleep 600", timeout=1.0)
    assert (done.run.status, done.run.exit_code) == (RunStatus.TIMEOUT, 4)
    assert done.text() == "begun\n"
    assert done.run.started_at is not None
    assert done.run.finished_at is not None
    assert (done.run.finished_at - done.run.started_at).total_seconds() < 10


def test_a_cancelled_run_ends_soon_and_its_sandbox_is_gone(service: Service, settings: Settings, tmp_path: Path) -> None:
    run = service.submit(RunSpec(name="test", command="echo begun; sleep 600"), base_dir=tmp_path)
    service.ensure_worker()
    for event in service.follow(run.id):
        if event.type == "command.output":
            assert len(sandboxes_left(settings)) == 1
            service.cancel(run.id[4:9])
    ended = service.get(run.id)
    assert (ended.status, ended.exit_code) == (RunStatus.CANCELLED, 130)
    assert sandboxes_left(settings) == []
    assert list(service.follow(run.id, after=10_000)) == []


def test_a_failed_attempt_is_tried_again_in_a_fresh_sandbox(execute) -> None:
    done = execute(command="ls; touch litter; exit 1", retries=2)
    assert done.run.attempt == 3
    assert [event.data["attempt"] for event in done.events if event.type == "run.started"] == [1, 2, 3]
    assert done.types.count("sandbox.created") == 3
    assert done.text() == ""
    assert sum("trying again" in event.data.get("text", "") for event in done.events) == 2


def test_bad_input_is_not_tried_again(execute) -> None:
    done = execute(command="true", retries=2, sandbox={"provider": "lokal"})
    assert (done.run.exit_code, done.run.attempt) == (2, 1)
    assert done.run.error is not None
    assert "local" in done.run.error.message


def test_what_the_provider_cannot_enforce_is_refused(execute) -> None:
    done = execute(command="true", sandbox={"image": "python:3.12"})
    assert done.run.exit_code == 2
    assert done.run.error is not None
    assert "image" in done.run.error.message


def test_a_secret_reaches_the_command_and_nothing_else(execute, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    done = execute(
        command='echo "key=$KEY"; printf "%s" "$KEY" > leak.txt; test -n "$KEY"',
        secrets={"KEY": "${MY_KEY}"},
        granted={"MY_KEY"},
        environ={"MY_KEY": SECRET},
        inputs={"path": "repo"},
        outputs={"files": ["leak.txt"]},
    )
    assert done.run.status is RunStatus.SUCCESS
    assert done.text() == "key=***\n"
    assert done.artifacts["files/leak.txt"] == b"***"
    assert b"***" in done.artifacts["patch.diff"]
    with_secret = [path for path in settings.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert with_secret == []


def test_a_secret_that_was_not_granted_is_refused_and_nothing_is_recorded(execute, settings: Settings) -> None:
    before = {path.name for path in settings.runs_dir.glob("*")}
    with pytest.raises(BadInput, match="--secret MY_KEY"):
        execute(command="true", secrets={"KEY": "${MY_KEY}"}, environ={"MY_KEY": SECRET})
    assert {path.name for path in settings.runs_dir.glob("*")} == before


def test_much_output_is_capped_and_its_rest_is_in_the_log(execute) -> None:
    done = execute(command="head -c 6000000 /dev/zero | tr '\\0' x")
    assert done.run.status is RunStatus.SUCCESS
    assert len(done.text()) + len(done.artifacts["command.log"]) == 6_000_000
    assert any("goes on in the artifact command.log" in event.data.get("text", "") for event in done.events)


def test_an_agent_works_in_the_sandbox(execute, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "script.yaml").write_text(
        "turns:\n"
        "  - tool_calls: [{id: w, name: write_file, args: {file_path: /workspace/made.txt, content: made}}]\n"
        "  - tool_calls: [{id: x, name: execute, args: {command: 'cat made.txt'}}]\n"
        "    text: next\n"
        "  - text: done\n"
    )
    done = execute(
        agent={"prompt": "Make it.", "model": "scripted:script.yaml"}, inputs={"path": "repo"}, verify="test -f made.txt"
    )
    assert done.run.error is None
    assert done.types.count("tool.result") == 2
    assert b"+made" in done.artifacts["patch.diff"]


def test_a_model_script_that_runs_out_fails_the_task(execute, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("turns:\n  - tool_calls: [{id: a, name: ls, args: {path: /workspace}}]\n")
    done = execute(agent={"prompt": "Go.", "model": "scripted:script.yaml"})
    assert done.run.exit_code == 1
    assert done.run.error is not None
    assert "ran out" in done.run.error.message


def test_many_runs_at_once_all_end_well(service: Service, tmp_path: Path) -> None:
    runs = [service.submit(RunSpec(name="test", command=f"echo {n}"), base_dir=tmp_path) for n in range(12)]
    service.ensure_worker()
    for number, run in enumerate(runs):
        done = Finished(service, run, list(service.follow(run.id)))
        assert done.text() == f"{number}\n"
        assert service.get(run.id).exit_code == 0


def test_runs_are_found_by_a_unique_prefix(execute, service: Service) -> None:
    run = execute(command="true").run
    assert service.get(run.id[: len(run.id) - 1]).id == run.id
    assert service.get(run.id.removeprefix("run-")).id == run.id
    execute(command="true")
    with pytest.raises(RunNotFound, match="more than one run begins with"):
        service.get("run-")
    with pytest.raises(RunNotFound, match="there is no run 'zzz'"):
        service.get("zzz")
    with pytest.raises(BadInput, match="has no artifact 'x'"):
        service.open_artifact(run.id, "x")


def test_nothing_of_the_workers_environment_reaches_a_sandbox(execute) -> None:
    done = execute(command="env")
    names = {line.partition("=")[0] for line in done.text().splitlines()}
    assert names.isdisjoint({"FANFOLD_HOME", "FANFOLD_WORKER_IDLE_EXIT", "PYTEST_CURRENT_TEST", "VIRTUAL_ENV"})
