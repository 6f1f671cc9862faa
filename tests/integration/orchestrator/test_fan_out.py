"""Children in forks of a run's sandbox, and their work in its workspace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.runs.family import Family
from orchestrator.runs.models import Event, Run, RunStatus
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from tests.integration.orchestrator.conftest import working

FILES = {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n", "c.txt": "c\n"}

Submit = Callable[..., tuple[Run, list[Event]]]


@pytest.fixture(scope="module")
def service(new_home: Any) -> Iterator[Service]:
    with new_home() as settings, Service(settings) as opened, working(opened):
        yield opened


@pytest.fixture
def submit(service: Service, tmp_path: Path) -> Submit:
    """Runs a task over `FILES` to its end; its events besides."""

    def to_its_end(files: Mapping[str, str] = FILES, **task: Any) -> tuple[Run, list[Event]]:
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        for name, text in files.items():
            (project / name).write_text(text)
        spec = RunSpec.model_validate({"inputs": {"path": "project"}, **task})
        run_id = service.submit(spec, base_dir=tmp_path).id
        events = list(service.follow(run_id))
        return service.get(run_id), events

    return to_its_end


@pytest.fixture
def kept(service: Service) -> Callable[[Run], dict[str, str]]:
    """What a run has left, by name."""

    def read(run: Run) -> dict[str, str]:
        found = {}
        for one in service.artifacts(run.id):
            with service.open_artifact(run.id, one.name) as file:
                found[one.name] = file.read().decode()
        return found

    return read


@pytest.fixture
def family(service: Service) -> Family:
    return Family(service._of.engine)


def output(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.type.endswith(".output"))


def test_what_children_changed_is_in_the_workspace_when_all_have_ended(
    submit: Submit, family: Family, kept: Callable[[Run], dict[str, str]]
) -> None:
    fan_out = {"items": ["a", "b", "new"], "command": "echo ${{ item }} >> ${{ item }}.txt; pwd"}
    run, events = submit(fan_out=fan_out, verify="cat a.txt b.txt new.txt")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events) == "one\ntwo\nthree\na\nb\nb\nnew\n"
    children = family.children(run.id)
    assert [(child.name, child.status, child.place) for child in children] == [
        (name, RunStatus.SUCCESS, place) for place, name in enumerate(["a", "b", "new"])
    ]
    report = json.loads(kept(run)["merge.json"])
    assert {one["path"]: one["children"] for one in report["merged"]} == {"a.txt": ["a"], "b.txt": ["b"], "new.txt": ["new"]}
    told = [event.type for event in events if event.type.startswith(("fan_out", "child", "merge"))]
    assert told == ["fan_out.started", *["child.finished"] * 3, "merge.finished"]


def test_a_conflict_fails_the_run_and_is_told(submit: Submit, kept: Callable[[Run], dict[str, str]]) -> None:
    commands = [{"name": name, "command": f"sed -i s/two/{name}/ a.txt; echo x > {name}"} for name in ("ann", "bob")]
    run, _ = submit(fan_out={"tasks": commands})
    assert run.status is RunStatus.ERROR
    assert run.error is not None
    assert "1 conflict left" in run.error.message
    left = kept(run)
    assert "<<<<<<< ann" in left["patch.diff"]
    assert "rename" not in left["merge.md"]
    assert "bob" in left["unmerged/bob.patch"]
    assert "unmerged/ann.patch" not in left


def test_a_conflict_may_be_kept(submit: Submit) -> None:
    commands = [{"name": name, "command": f"sed -i s/two/{name}/ a.txt"} for name in ("ann", "bob")]
    merge = {"rules": [{"path": "*.txt", "policy": "theirs"}], "on_conflict": "keep"}
    run, events = submit(fan_out={"tasks": commands, "merge": merge}, verify="cat a.txt")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events) == "one\nbob\nthree\n"


def test_a_check_leaves_out_who_breaks_it(submit: Submit, kept: Callable[[Run], dict[str, str]]) -> None:
    commands = {"good": "echo x > x", "bad": "rm b.txt", "fine": "echo y > y"}
    tasks = [{"name": name, "command": command} for name, command in commands.items()]
    run, events = submit(fan_out={"tasks": tasks, "merge": {"verify": "cat b.txt", "on_conflict": "keep"}}, verify="ls")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events).split() == ["a.txt", "b.txt", "c.txt", "x", "y"]
    assert [event.data["left_out"] for event in events if event.type == "merge.finished"] == [["bad"]]
    (left,) = json.loads(kept(run)["merge.json"])["not_merged"]
    assert (left["name"], "b.txt: No such file" in left["output"]) == ("bad", True)


def test_a_child_that_fails_leaves_its_work_and_the_others_are_merged(
    submit: Submit, kept: Callable[[Run], dict[str, str]]
) -> None:
    tasks = [{"name": "good", "command": "echo x > x"}, {"name": "bad", "command": "echo y > y; exit 3"}]
    run, events = submit(fan_out={"tasks": tasks}, verify="ls")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events).split() == ["a.txt", "b.txt", "c.txt", "x"]
    assert "+y" in kept(run)["unmerged/bad.patch"]
    ended = {event.data["name"]: event.data["status"] for event in events if event.type == "child.finished"}
    assert ended == {"good": "success", "bad": "error"}


def test_a_child_that_fails_fails_the_run_when_no_check_decides(submit: Submit) -> None:
    run, _ = submit(fan_out={"tasks": [{"name": "good", "command": "echo x > x"}, {"name": "bad", "command": "exit 3"}]})
    assert run.status is RunStatus.ERROR
    assert run.error is not None
    assert "children failed: bad" in run.error.message


def test_a_file_that_cannot_be_merged_is_made_anew(submit: Submit) -> None:
    tasks = [{"name": name, "command": f"echo {name} > {name}.part; cat *.part > all.lock"} for name in ("a", "b")]
    merge = {"rules": [{"path": "all.lock", "command": "cat *.part > all.lock"}]}
    run, events = submit(fan_out={"tasks": tasks, "merge": merge}, verify="cat all.lock")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events) == "a\nb\n"


# Agents

SCRIPT = {
    "turns": [
        {
            "tool_calls": [
                {"id": "one", "name": "task", "args": {"subagent_type": "general-purpose", "description": "append to a.txt"}},
                {"id": "two", "name": "task", "args": {"subagent_type": "general-purpose", "description": "append to b.txt"}},
            ]
        },
        {"tool_calls": [{"id": "see", "name": "execute", "args": {"command": "cat a.txt b.txt"}}]},
        {"text": "done"},
    ],
    "subagents": [
        {
            "when": "append to",
            "turns": [
                {
                    "tool_calls": [
                        {
                            "id": "do",
                            "name": "execute",
                            "args": {"command": "echo more >> {{ prompt.match('to (.*)') }}"},
                        }
                    ]
                },
                {"text": "appended to {{ prompt.match('to (.*)') }}"},
            ],
        }
    ],
}


def test_subagents_work_in_forks_and_their_agent_sees_what_they_changed(submit: Submit, family: Family, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(yaml.safe_dump(SCRIPT))
    run, events = submit(agent={"prompt": "go", "model": "scripted:script.yaml"})
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    results = {event.data["id"]: event.data["text"] for event in events if event.type == "tool.result"}
    assert results["one"] == "appended to a.txt\n\n[Merged: 1 file ('a.txt').]"
    assert results["two"] == "appended to b.txt\n\n[Merged: 1 file ('b.txt').]"
    assert "one\ntwo\nthree\nmore\nb\nmore" in results["see"]
    assert [child.name for child in family.children(run.id)] == ["general-purpose-1", "general-purpose-2"]


RESOLVER = {
    "turns": [
        {
            "expect": {"contains": ["a.txt", "/tmp/conflicts/bob/"]},
            "tool_calls": [
                {"id": "look", "name": "execute", "args": {"command": "cat /tmp/conflicts/bob/a.txt.theirs extra"}},
                {"id": "do", "name": "execute", "args": {"command": "sed -i s/.*ann.*/both/ a.txt; touch elsewhere"}},
            ],
        },
        {"expect": {"result": "look", "contains": ["bob", "there"]}, "text": "settled"},
    ]
}


@pytest.mark.parametrize("check", [None, "grep both a.txt"])
def test_an_agent_settles_what_it_is_asked_about(submit: Submit, family: Family, tmp_path: Path, check: str | None) -> None:
    (tmp_path / "resolver.yaml").write_text(yaml.safe_dump(RESOLVER))
    tasks = [{"name": name, "command": f"sed -i s/two/{name}/ a.txt; echo there > extra"} for name in ("ann", "bob")]
    merge = {"rules": [{"path": "a.txt", "policy": "ask"}], "resolver": {"model": "scripted:resolver.yaml"}, "verify": check}
    run, events = submit(fan_out={"tasks": tasks, "merge": merge}, verify="cat a.txt; ls")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events).split() == ["one", "both", "three", "a.txt", "b.txt", "c.txt", "extra"]
    assert [child.name for child in family.tree(run.id)] == ["ann", "bob", "resolver"]


def test_a_recording_has_what_subagents_in_forks_were_asked(
    submit: Submit, kept: Callable[[Run], dict[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "script.yaml").write_text(yaml.safe_dump(SCRIPT))
    run, _ = submit(agent={"prompt": "go", "model": "record:tape.yaml=scripted:script.yaml"})
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    (tmp_path / "tape.yaml").write_text(kept(run)["tape.yaml"])
    run, events = submit(agent={"prompt": "go", "model": "replay:tape.yaml"}, verify="cat a.txt b.txt")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert output(events) == "one\ntwo\nthree\nmore\nb\nmore\n"


def test_commits_of_children_come_over_as_refs(submit: Submit, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "README").write_text("begun")
    git = "git -c user.name=x -c user.email=x@example.org"
    subprocess.run(f"git init -q . && git add -A && {git} commit -qm base", shell=True, cwd=project, check=True)
    tasks = [
        {"name": name, "command": f"echo {name} > {name} && git add {name} && {git} commit -qm 'by {name}'"}
        for name in ("ann", "bob")
    ]
    run, events = submit(fan_out={"tasks": tasks}, verify="git log --all --format=%s; git for-each-ref refs/fanfold")
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    told = output(events)
    assert sorted(told.splitlines()[:3]) == ["base", "by ann", "by bob"]
    assert told.count("refs/fanfold/ann/") == told.count("refs/fanfold/bob/") == 2


def test_a_workspace_that_was_changed_meanwhile_keeps_what_it_has(submit: Submit, tmp_path: Path) -> None:
    """A process that the agent left behind writes to a file that its subagent changes, while that works in a fork."""
    meanwhile = "setsid sh -c 'while :; do echo mine >> a.txt; sleep 0.01; done' >/dev/null 2>&1 &"
    task = {"subagent_type": "general-purpose", "description": "append to a.txt"}
    turns = [
        {"tool_calls": [{"name": "execute", "args": {"command": meanwhile}}]},
        {"tool_calls": [{"id": "one", "name": "task", "args": task}]},
        {"text": "done"},
    ]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({**SCRIPT, "turns": turns}))
    run, events = submit(agent={"prompt": "go", "model": "scripted:script.yaml"})
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    (told,) = [event.data["text"] for event in events if event.type == "tool.result" and event.data["id"] == "one"]
    assert "Nothing was merged: the workspace was changed meanwhile: 'a.txt'" in told
