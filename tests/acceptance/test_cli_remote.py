"""What the command line says of the API that it works on, and what it keeps to itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Task = Callable[..., Path]


def test_doctor_says_which_api_it_is_and_as_whom(served: Any) -> None:
    done = served("doctor", "-o", "json")

    report = json.loads(done.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert (done.returncode, report["healthy"]) == (0, True), done.stdout + done.stderr
    assert checks["api"]["found"].startswith(served.environ["FANFOLD_URL"])
    assert "of the tenant default: admin" in checks["api"]["found"]
    assert checks["workers"]["found"].startswith("1 worker")
    assert "record" not in checks


def test_doctor_says_that_an_api_is_not_there_or_does_not_know_the_key(served: Any) -> None:
    nowhere = served("doctor", FANFOLD_URL="http://127.0.0.1:1")
    unknown = served("doctor", FANFOLD_API_KEY="ffk_000000000000_hush-hush")

    assert (nowhere.returncode, unknown.returncode) == (3, 3)
    assert "http://127.0.0.1:1 cannot be reached" in nowhere.stdout
    assert "ffk_000000000000_..." in unknown.stdout
    assert "hush-hush" not in unknown.stdout + unknown.stderr


def test_the_key_is_never_shown(served: Any, task: Task) -> None:
    for arguments in (["runs", "ls"], ["run", task("command: env")], ["runs", "show", "x"], ["exec", "--", "env"]):
        done = served(*arguments)
        assert served.environ["FANFOLD_API_KEY"] not in done.stdout + done.stderr
        assert "FANFOLD_API_KEY" not in done.stdout


def test_an_api_that_is_not_there_is_one_clear_message_and_exit_code_3(served: Any) -> None:
    done = served("runs", "ls", FANFOLD_URL="http://127.0.0.1:1")

    assert done.returncode == 3
    assert done.stderr.startswith("fanfold: error: the API at http://127.0.0.1:1 cannot be reached")
    assert len(done.stderr.splitlines()) == 1


def test_an_address_that_is_none_is_bad_input(served: Any) -> None:
    done = served("runs", "ls", FANFOLD_URL="localhost:8000")

    assert done.returncode == 2
    assert "write http://HOST:PORT" in done.stderr


def test_what_works_on_the_record_itself_says_that_it_does(served: Any) -> None:
    done = served("keys", "ls")

    assert done.returncode == 2
    assert "FANFOLD_URL is set" in done.stderr


def test_a_run_is_retried_with_its_secrets_granted_again(anywhere: Any, task: Task) -> None:
    file = task('name: again\ncommand: test "$A" = right\nsecrets: {A: "${MINE}"}')
    first = json.loads(anywhere("run", file, "--secret", "MINE", "-o", "json", MINE="wrong").stdout)["run"]

    refused = anywhere("runs", "retry", first["id"], MINE="right")
    again = anywhere("runs", "retry", first["id"], "--secret", "MINE", MINE="right").stdout.strip()
    anywhere("runs", "logs", "-f", again)

    assert first["status"] == "error"
    assert (refused.returncode, "--secret MINE" in refused.stderr) == (2, True)
    assert again != first["id"]
    assert json.loads(anywhere("runs", "show", again, "-o", "json").stdout)["run"]["status"] == "success"


def test_what_is_shown_of_a_run_is_the_same_here_and_over_the_api(shared: Any, served: Any, task: Task) -> None:
    file = task("name: same\ncommand: echo out; echo a > a.txt\noutputs: {files: [a.txt], patch: true}\n")
    run = json.loads(served("run", file, "-o", "json").stdout)["run"]["id"]

    for arguments in (["runs", "logs", run], ["runs", "logs", run, "-o", "jsonl"], ["runs", "ls", "-o", "json", "-n", "1000"]):
        assert served(*arguments).stdout == shared(*arguments).stdout
    here, there = (json.loads(one("runs", "show", run, "-o", "json").stdout) for one in (shared, served))
    for document in (here, there):
        places = {artifact["name"]: artifact.pop("path") for artifact in document["artifacts"]}
        assert set(places) == {"files/a.txt", "patch.diff"}
    assert here == there
    assert places["files/a.txt"] == f"{served.environ['FANFOLD_URL']}/v1/runs/{run}/artifacts/files/a.txt"


def test_the_children_of_a_run_are_the_same_here_and_over_the_api(shared: Any, served: Any, task: Task) -> None:
    file = task("inputs: {path: repo}\nfan_out: {items: [a, b], command: 'echo > ${{ item }}'}", repo__there="x")
    run = json.loads(served("run", file, "-o", "json").stdout)["run"]["id"]

    here, there = (json.loads(one("runs", "show", run, "-o", "json").stdout) for one in (shared, served))
    assert [child["name"] for child in here["children"]] == ["a", "b"]
    for part in ("run", "children", "spent"):
        assert here[part] == there[part]
    for options in (["--parent", run], ["--all", "-n", "1000"]):
        assert served("runs", "ls", "-o", "json", *options).stdout == shared("runs", "ls", "-o", "json", *options).stdout


def test_sandboxes_and_schedules_are_there_over_the_api(anywhere: Any) -> None:
    assert anywhere("sandboxes", "ls").stdout == "no sandboxes\n"
    assert anywhere("schedules", "ls").returncode == 0
