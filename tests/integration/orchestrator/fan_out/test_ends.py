"""How fan-outs end that do not go well: children fail or are late, runs are cancelled, time and money are over."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.runs.models import RunStatus
from orchestrator.service import Service
from tests.integration.orchestrator.conftest import processes
from tests.integration.orchestrator.fan_out.conftest import Ended

FILES = {"a.txt": "a\n"}
MARKER = f"6{os.getpid()}.5"
FOREVER = f"sleep {MARKER}"
"""Ten minutes and more, to be found among the processes of this machine."""
GENEROUS = 60.0
"""Seconds in which what would go on for ten minutes has ended; the machine may be busy with other tests."""

Play = Callable[..., Ended]
Begin = Callable[..., str]
End = Callable[[str], Ended]


def tasks(**commands: str) -> list[dict[str, str]]:
    return [{"name": name, "command": command} for name, command in commands.items()]


def test_who_fails_is_left_out_with_what_it_did_and_a_check_has_the_last_word(play: Play) -> None:
    children = tasks(good="echo x > x", bad="echo y > y; exit 3", fine="echo z > z")
    done = play(FILES, fan_out={"tasks": children}, verify="ls")
    assert (done.problem, done.run.exit_code) == ("", 0)
    assert done.statuses() == {"good": "success", "bad": "error", "fine": "success"}
    assert done.output.split() == ["a.txt", "x", "z"]
    assert "+y" in done.artifacts["unmerged/bad.patch"]
    assert [one["name"] for one in done.report["not_merged"]] == ["bad"]


def test_the_first_failure_may_end_all_others(play: Play) -> None:
    children = tasks(good="echo x > x", slow=FOREVER, late="sleep 1; exit 3", waiting="echo w > w")
    began = time.monotonic()
    done = play(FILES, fan_out={"tasks": children, "max_parallel": 2, "on_child_failure": "cancel"}, verify="true")
    assert time.monotonic() - began < GENEROUS
    assert (done.run.status, done.run.exit_code) == (RunStatus.ERROR, 1)
    assert "children failed: slow, late" in done.problem
    assert done.statuses() == {"good": "success", "slow": "cancelled", "late": "error", "waiting": "cancelled"}


def test_a_child_that_is_late_ends_as_that(play: Play) -> None:
    done = play(FILES, fan_out={"tasks": tasks(late=FOREVER), "timeout": "3s"})
    assert (done.run.status, done.statuses()) == (RunStatus.ERROR, {"late": "timeout"})


def test_a_run_that_is_late_ends_with_its_children(play: Play) -> None:
    done = play(FILES, fan_out={"tasks": tasks(one=FOREVER, other=FOREVER)}, timeout="10s")
    assert (done.run.status, done.run.exit_code) == (RunStatus.TIMEOUT, 4)
    assert not {"pending", "running", "success"} & set(done.statuses().values())


# A run is cancelled


def agents(answers: dict[str, list[dict[str, Any]]], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """A script: what calls are made at the top, and by those whose prompt begins with a word."""
    parts = [{"when": f"^{word}", "turns": [{"tool_calls": made}, {"text": "done"}]} for word, made in answers.items()]
    return {"turns": [{"tool_calls": calls}, {"text": "done"}], "subagents": parts}


def task(key: str, description: str) -> dict[str, Any]:
    return {"id": key, "name": "task", "args": {"subagent_type": "general-purpose", "description": description}}


def execute(command: str) -> list[dict[str, Any]]:
    return [{"id": "command", "name": "execute", "args": {"command": command}}]


NESTED = agents({"lead": [task("a", "work a"), task("b", "work b")], "work": execute(FOREVER)}, execute("true"))


def by_service(service: Service, run_id: str) -> None:
    service.cancel(run_id)


def by_command(service: Service, run_id: str) -> None:
    command = [sys.executable, "-m", "orchestrator.cli.main", "runs", "cancel", run_id]
    subprocess.run(command, check=True, capture_output=True, timeout=GENEROUS)


@pytest.mark.parametrize("cancel", [by_service, by_command])
@pytest.mark.parametrize("depth", [1, 2])
def test_who_cancels_a_run_cancels_all_below_it(
    service: Service, begin: Begin, ended: End, until: Callable[..., None], depth: int, cancel: Callable[..., None]
) -> None:
    agent = {"model": "scripted:script.yaml", "prompt": "lead ${{ item }}", "isolation": "fork"}
    template = {"command": f": ${{{{ item }}}}; {FOREVER}"} if depth == 1 else {"agent": agent}
    run_id = begin(FILES, {"script.yaml": NESTED}, fan_out={"items": ["left", "right"], **template})

    until(lambda: processes(MARKER) == 2**depth, "the last generation is at work")
    began = time.monotonic()
    cancel(service, run_id)
    done = ended(run_id)
    assert time.monotonic() - began < GENEROUS
    assert (done.run.status, done.run.exit_code) == (RunStatus.CANCELLED, 130)
    assert {child.status for child in done.children} == {RunStatus.CANCELLED}
    assert len(done.children) == (2 if depth == 1 else 6)
    until(lambda: processes(MARKER) == 0, "the processes are gone")


def test_what_is_only_being_made_when_its_run_is_cancelled_is_gone_with_it(
    service: Service, begin: Begin, ended: End, until: Callable[..., None]
) -> None:
    run_id = begin(FILES, fan_out={"items": list(range(8)), "command": f": ${{{{ item }}}}; {FOREVER}"})
    until(lambda: any(child.status is RunStatus.RUNNING for child in service.children(run_id)), "the first child begins")
    service.cancel(run_id)
    assert {child.status for child in ended(run_id).children} == {RunStatus.CANCELLED}


# Generations, and what they use


def test_the_work_of_grandchildren_comes_back_through_their_parents(play: Play) -> None:
    work = execute("{{ prompt.match('work (.*)') }}")
    lead = [task("a", "work echo {{ prompt.match('lead (.*)') }} > one"), task("b", "work echo more >> a.txt")]
    script = agents({"lead": lead, "work": work}, execute("true"))
    children = [
        {"name": name, "agent": {"model": "scripted:script.yaml", "prompt": f"lead {name}", "isolation": "fork"}}
        for name in ("left", "right")
    ]
    merge = {"rules": [{"path": "one", "policy": "theirs"}]}
    done = play(FILES, {"script.yaml": script}, fan_out={"tasks": children, "merge": merge}, verify="cat one a.txt")
    assert (done.problem, done.run.exit_code) == ("", 0)
    assert [(child.depth, child.status.value) for child in done.children] == [(1, "success")] * 2 + [(2, "success")] * 4
    assert done.output.split() == ["right", "a", "more"]
    assert [(one["path"], one["children"]) for one in done.report["merged"]] == [
        ("a.txt", ["left", "right"]),
        ("one", ["left", "right"]),
    ]


def test_a_budget_is_of_all_together(service: Service, play: Play) -> None:
    answer = {"usage": {"input_tokens": 900, "output_tokens": 100}}
    script = {"turns": [{"tool_calls": execute("true"), **answer}, {"text": "done", **answer}]}
    agent = {"model": "scripted:script.yaml", "prompt": "${{ item }}"}
    fan_out = {"items": list("abcdef"), "agent": agent, "max_parallel": 1}
    done = play(FILES, {"script.yaml": script}, fan_out=fan_out, budget={"tokens": 3500}, verify="true")
    assert (done.run.status, done.run.exit_code) == (RunStatus.ERROR, 1)
    assert "budget of 3500 tokens" in str(done.run.error)
    assert list(done.statuses().values()) == ["success"] + ["error"] * 5
    assert all("budget" in str(child.error) for child in done.children[1:])
    assert service.spent(done.run.id).tokens == 4000
