"""Looking at runs, and what the machine can do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Task = Callable[..., Path]


def test_a_detached_run_is_listed_followed_shown_and_its_log_kept(anywhere: Any, task: Task) -> None:
    run = anywhere("run", task("name: later\ncommand: echo hello; exit 3"), "-d").stdout.strip()

    followed = anywhere("runs", "logs", "-f", run)
    listed = json.loads(anywhere("runs", "ls", "-s", "error", "-n", "1", "-o", "json").stdout)
    shown = anywhere("runs", "show", run.removeprefix("run-")[:8])
    document = json.loads(anywhere("runs", "show", run, "-o", "json").stdout)

    assert followed.returncode == 0
    assert "|   hello" in followed.stdout
    assert [(one["id"], one["exit_code"]) for one in listed] == [(run, 1)]
    assert f"run        {run}\n" in shown.stdout
    assert "does       echo hello; exit 3\n" in shown.stdout
    assert "exit code 3" in shown.stdout
    (attempt,) = document["attempts"]
    assert (attempt["attempt"], attempt["status"], attempt["provider"]) == (1, "error", "local")
    assert attempt["error"] == document["run"]["error"]
    assert anywhere("runs", "logs", run).stdout == followed.stdout


def test_a_run_is_cancelled_by_its_id(anywhere: Any, task: Task) -> None:
    run = anywhere("run", task("command: sleep 600"), "-d").stdout.strip()

    done = anywhere("runs", "cancel", run)

    assert (done.returncode, done.stdout) == (0, f"{run} cancelled\n")
    assert json.loads(anywhere("runs", "show", run, "-o", "json").stdout)["run"]["status"] == "cancelled"
    assert anywhere.sandboxes() == []


def test_the_table_has_a_line_for_each_run(anywhere: Any, task: Task) -> None:
    anywhere("run", task("name: listed\ncommand: 'true'"))

    header, first, *_ = anywhere("runs", "ls").stdout.splitlines()

    assert header.split() == ["RUN", "NAME", "STATUS", "PROVIDER", "SUBMITTED", "TOOK"]
    assert first.split()[1:4] == ["listed", "success", "local"]


def test_who_stops_reading_is_no_reason_for_a_traceback(anywhere: Any, task: Task) -> None:
    run = anywhere("run", task("command: seq 100000"), "-d").stdout.strip()
    anywhere("runs", "logs", "-f", run)
    with anywhere.start("runs", "logs", run) as process:
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == ""
        assert process.wait(30) != 0


def test_what_is_not_there_is_said(anywhere: Any) -> None:
    for arguments, said in (
        (["show", "run-nowhere"], "there is no run 'run-nowhere'"),
        (["logs", "x"], "there is no run 'x'"),
        (["cancel", "x"], "there is no run 'x'"),
        (["ls", "-s", "sucess"], "there is no such status"),
        (["logs", "x", "-o", "xml"], "write text or jsonl"),
    ):
        done = anywhere("runs", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_doctor_finds_this_machine_ready(fanfold: Any) -> None:
    done = fanfold("doctor", "-o", "json", ANTHROPIC_API_KEY="hush-hush")

    report = json.loads(done.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert done.returncode == 0, done.stdout
    assert report["healthy"] is True
    assert checks["local"]["found"].startswith("first answer in ")
    assert "ANTHROPIC_API_KEY is set" in checks["anthropic"]["found"]
    assert "hush-hush" not in done.stdout
    assert list(checks)[:3] == ["python", "home", "record"]


def test_doctor_says_what_is_missing_and_how_to_get_it(without_docker: Any) -> None:
    done = without_docker("doctor", FANFOLD_REDIS_URL="redis://127.0.0.1:1/0")

    assert done.returncode == 3
    assert "127.0.0.1:1/0 (FANFOLD_REDIS_URL) does not answer" in done.stdout
    assert "unset it to use the embedded one" in done.stdout
    assert "no.sock" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not ready")


def test_doctor_needs_the_provider_of_tasks_that_name_none(without_docker: Any) -> None:
    """Of those that `auto` stands for (docker and local) one is enough."""
    for provider, code in (("docker", 3), ("dokcer", 3), ("auto", 0)):
        done = without_docker("doctor", FANFOLD_PROVIDER=provider)
        assert done.returncode == code, f"{provider}: {done.stdout}"
    assert "there is no such provider here" in without_docker("doctor", FANFOLD_PROVIDER="dokcer").stdout


def test_a_worker_started_by_hand_leaves_when_it_is_idle(fanfold: Any) -> None:
    done = fanfold("worker", "--idle-exit", "0.2", "--concurrency", "1")

    assert done.returncode == 0, done.stderr


def test_runs_that_ended_are_pruned_but_the_last_ones(anywhere: Any, task: Task) -> None:
    for name in ("one", "two", "three"):
        anywhere("run", task(f"name: {name}\ncommand: 'true'"))
    before = {run["id"]: run for run in json.loads(anywhere("runs", "ls", "-n", "1000", "-o", "json").stdout)}

    planned = json.loads(anywhere("runs", "prune", "--keep", "1", "--dry-run", "-o", "json").stdout)
    untouched = json.loads(anywhere("runs", "ls", "-n", "1000", "-o", "json").stdout)
    done = anywhere("runs", "prune", "--keep", "1")
    left = json.loads(anywhere("runs", "ls", "-n", "1000", "-o", "json").stdout)

    assert (set(planned["runs"]), planned["removed"]) == (set(before) - {left[0]["id"]}, False)
    assert {run["id"] for run in untouched} == set(before)
    assert done.stdout.splitlines()[-1] == f"{len(before) - 1} runs removed"
    assert [run["name"] for run in left] == ["three"]
    assert anywhere("runs", "show", planned["runs"][0]).returncode == 2


def test_pruning_without_a_bound_or_with_a_wrong_one_is_refused(anywhere: Any) -> None:
    assert "all but the last ones" in anywhere("runs", "prune").stderr
    assert "is not a duration" in anywhere("runs", "prune", "--older-than", "soon").stderr


FAN_OUT = """
name: many
inputs: {path: repo}
fan_out:
  items: [a, b, c]
  command: test ${{ item }} != b && echo ${{ item }} > ${{ item }}.txt
verify: cat a.txt c.txt
"""


def test_a_run_that_fans_out_is_told_with_its_children(anywhere: Any, task: Task, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    done = anywhere("run", task(FAN_OUT, repo__there="x"), "--junit", junit)
    (run,) = json.loads(anywhere("runs", "ls", "-n", "1", "-o", "json").stdout)
    document = json.loads(anywhere("runs", "show", run["id"], "-o", "json").stdout)
    first, second, third = document["children"]
    shown = anywhere("runs", "show", run["id"]).stdout

    assert done.returncode == 0, done.stdout + done.stderr
    assert {"fan-out: 3 children", "child a  success", "merged 2 files"} <= {line[11:] for line in done.stdout.splitlines()}
    assert "child b  error: the command failed with exit code 1\n" in done.stdout
    assert "  children   2 of 3 succeeded; failed: b\n  merge      2 files merged\n             merge.md: " in done.stdout
    assert (run["name"], run["parent_id"], second["name"], second["parent_id"]) == ("many", None, "b", run["id"])
    assert f"tree       a  success  {took(shown, 'a')}  {first['id']}\n" in shown
    assert document["spent"]["sandbox_seconds"] > document["attempts"][0]["sandbox_seconds"]
    assert "together   " in shown
    assert f"parent     {run['id']}\n" in anywhere("runs", "show", third["id"]).stdout
    assert 'tests="5" failures="1" errors="0"' in junit.read_text()
    assert 'name="child: b"' in junit.read_text()


def took(shown: str, name: str) -> str:
    """What the tree tells of the time of a child."""
    found = re.search(rf"^\S* +{name}  success  (\S+ s)  ", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1]


def test_children_are_listed_by_their_parent_or_with_everything(anywhere: Any, task: Task) -> None:
    run = json.loads(anywhere("run", task(FAN_OUT, repo__there="x"), "-o", "json").stdout)["run"]["id"]

    def names(*options: str) -> list[str]:
        return [one["name"] for one in json.loads(anywhere("runs", "ls", "-o", "json", *options).stdout)]

    assert names("--parent", run) == ["a", "b", "c"]
    assert names("--parent", run.removeprefix("run-")[:8], "-s", "error") == ["b"]
    assert names("-n", "1") == ["many"]
    assert names("--all", "-n", "4") == ["c", "b", "a", "many"]
    header, first, *_ = anywhere("runs", "ls", "--all").stdout.splitlines()
    assert (header.split()[:2], first.split()[1]) == (["RUN", "PARENT"], run)
    assert anywhere("runs", "ls", "--parent", run, "-s", "running").stdout == "no children of status running\n"


def test_a_child_is_not_retried_by_itself(anywhere: Any, task: Task) -> None:
    run = json.loads(anywhere("run", task(FAN_OUT, repo__there="x"), "-o", "json").stdout)["run"]["id"]
    child, *_ = json.loads(anywhere("runs", "ls", "--parent", run, "-o", "json").stdout)

    done = anywhere("runs", "retry", child["id"])

    assert (done.returncode, f"retry run {run}" in done.stderr) == (2, True)
