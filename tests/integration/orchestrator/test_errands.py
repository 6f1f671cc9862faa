"""What the controllers of real processes do for the tenants: schedules come, webhooks are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.runs.database import now
from orchestrator.runs.schedules import Overlap, Schedules
from orchestrator.runs.schema import open_database
from orchestrator.service import Service
from orchestrator.service.orders import RunOrder
from orchestrator.settings import Settings
from orchestrator.signature import verify
from orchestrator.spec import RunSpec
from tests.unit.orchestrator.controller.receiver import receiving, status

CONTROLLER = ("-m", "orchestrator.cli.main", "controller")
ORDER = RunOrder(task=RunSpec(command="true", name="scheduled"))
Until = Callable[[Callable[[], object], str], None]


@contextmanager
def controllers(number: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """So many controllers of this installation."""
    started = [subprocess.Popen([sys.executable, *CONTROLLER]) for _ in range(number)]
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def make_due(settings: Settings, schedule_id: str, since: timedelta) -> None:
    """Let the time of a schedule have come so long ago."""
    record = Schedules(open_database(settings.database, settings.home / "database.lock"))
    record.change(schedule_id, {"next_at": now() - since}, tenant="default")
    record.close()


def test_a_worker_alone_runs_what_is_due_and_tells_the_webhook(new_home: Any, until: Until) -> None:
    with new_home(WEBHOOK_ALLOW_PRIVATE="true") as settings, Service(settings) as service, receiving(status(500, 204)) as hook:
        made = service.webhooks.create(hook.url)
        schedule = service.schedules.create("hourly", ORDER, cron="0 * * * *")
        make_due(settings, schedule.id, timedelta(hours=3))
        service.ensure_worker()
        until(lambda: service.schedules.get(schedule.id).last_run_id, "the schedule has come")
        run = service.get(service.schedules.get(schedule.id).last_run_id or "")
        until(lambda: service.get(run.id).status.terminal, "the run has ended")
        until(lambda: hook.received, "the webhook was told")
        came = hook.received[0]
        told = verify(came.body, came.headers["Fanfold-Signature"], made.secret)
        assert (told["event"], told["run"]["id"], told["run"]["status"]) == ("run.finished", run.id, "success")
        until(lambda: service.webhooks.deliveries(made.webhook.id).items[0].error, "the refusal is noted")
        assert service.schedules.get(schedule.id).last_error is None
        assert [one.id for one in service.list()] == [run.id]


def test_a_time_has_one_run_whichever_controllers_die(new_home: Any, until: Until) -> None:
    with new_home() as settings, Service(settings) as service:
        schedule = service.schedules.create("hourly", ORDER, cron="0 * * * *", overlap=Overlap.ALLOW)

        def moved_on() -> bool:
            due = service.schedules.get(schedule.id).next_at
            return due is not None and due > now()

        with controllers(3) as processes:
            for turn, process in enumerate(processes):
                make_due(settings, schedule.id, timedelta(hours=turn + 1))
                until(lambda count=turn + 1: len(service.list()) == count, f"time {turn} has come")
                if process is not processes[-1]:
                    os.kill(process.pid, signal.SIGKILL)  # most often before it could note that the run is there
                until(moved_on, "the schedule waits for its next time")
        found = service.list()
        assert len(found) == 3
        assert service.schedules.get(schedule.id).last_run_id in {run.id for run in found}


def test_secrets_that_the_operator_gives_are_resolved_when_the_time_comes(
    new_home: Any, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = RunSpec(command='test -n "$T"', secrets={"T": "${TOKEN_OF_THE_OPERATOR}"})
    with new_home(ALLOWED_SECRETS="TOKEN_OF_THE_OPERATOR") as settings, Service(settings) as service:
        schedule = service.schedules.create("hourly", task, cron="0 * * * *")
        monkeypatch.setenv("TOKEN_OF_THE_OPERATOR", "given-later")
        make_due(settings, schedule.id, timedelta(minutes=1))
        service.ensure_worker()
        until(lambda: service.schedules.get(schedule.id).last_at, "the schedule has come")
        kept = service.schedules.get(schedule.id)
        assert kept.last_error is None
        until(lambda: service.get(kept.last_run_id or "").status.terminal, "the run has ended")
        assert service.get(kept.last_run_id or "").status.value == "success"
        assert "given-later" not in str(kept.order)
