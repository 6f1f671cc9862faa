"""`fanfold schedules`, on the record of this machine and over the API alike."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from orchestrator.service import Service
from tests.integration.orchestrator.api.conftest import Fanfold


@pytest.fixture
def task(tmp_path: Path) -> str:
    path = tmp_path / "task.yaml"
    path.write_text("name: from-a-file\ncommand: 'true'\n")
    return str(path)


def test_a_schedule_is_made_switched_triggered_and_removed(fanfold: Fanfold, task: str, service: Service) -> None:
    zone = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin")
    made = json.loads(fanfold("schedules", "create", "nightly", task, *zone, "-o", "json").stdout)
    kept = service.schedules.get(made["id"])
    assert (kept.name, kept.timezone, kept.overlap.value) == ("nightly", "Europe/Berlin", "skip")
    assert kept.next_at is not None
    assert datetime.fromisoformat(made["next_at"]) == kept.next_at
    listed = fanfold("schedules", "ls").stdout
    assert made["id"] in listed
    assert "30 2 * * *" in listed
    assert fanfold("schedules", "disable", made["id"]).stdout == f"{made['id']} is disabled\n"
    assert service.schedules.get(made["id"]).next_at is None
    assert "is due at " in fanfold("schedules", "enable", made["id"]).stdout
    run_id = fanfold("schedules", "trigger", made["id"]).stdout.strip()
    assert service.get(run_id).name == "from-a-file"
    assert fanfold("schedules", "rm", made["id"]).stdout == f"{made['id']} removed\n"
    assert made["id"] not in fanfold("schedules", "ls", "-o", "json").stdout


@pytest.mark.parametrize("wrong", [("--cron", "x"), ("--cron", "* * * * *", "--timezone", "Mars/Base")])
def test_what_makes_no_sense_is_refused(fanfold: Fanfold, task: str, wrong: tuple[str, ...]) -> None:
    answer = fanfold("schedules", "create", "nightly", task, *wrong)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert wrong[-1] in answer.stderr


def test_a_task_with_files_cannot_be_scheduled(fanfold: Fanfold, tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("command: 'true'\ninputs: {path: .}\n")
    answer = fanfold("schedules", "create", "nightly", str(path), "--cron", "* * * * *")
    assert answer.returncode == 2
    assert "task.inputs.path" in answer.stderr


def test_a_schedule_that_is_not_there_is_told(fanfold: Fanfold) -> None:
    answer = fanfold("schedules", "rm", "sch-000000000000")
    assert answer.returncode == 2
    assert "sch-000000000000" in answer.stderr
