"""Workers come when they are needed, leave when they are idle, and when one dies another goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis

from orchestrator.broker import Broker
from orchestrator.errors import InfrastructureError, WorkerUnavailable
from orchestrator.queue import QUEUE
from orchestrator.runs.models import Run, RunStatus, WorkerInfo
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store, now
from orchestrator.service import Service
from orchestrator.service import door as service_module
from orchestrator.spec import RunSpec
from orchestrator.worker.runner import Runner
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider

NO_PROCESS = 2**22 + 1
"""An id that no process can have: Linux counts to 2**22."""


def submit(service: Service, base: Path, command: str, **more: object) -> str:
    return service.submit(RunSpec.model_validate({"command": command, **more}), base_dir=base).id


def wait_for_output(service: Service, run_id: str) -> None:
    for event in service.follow(run_id):
        if event.type == "command.output":
            return


def test_callers_that_need_a_worker_at_once_start_one(new_home, until, is_running) -> None:
    with new_home(WORKER_IDLE_EXIT="1.5") as settings:
        found = []

        def ensure() -> None:
            with Service(settings) as mine:
                found.append(mine.ensure_worker().pid)

        threads = [threading.Thread(target=ensure) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 3
        assert len(set(found)) == 1
        # and when it has been idle for its time, it leaves, and the broker with it
        until(lambda: not is_running(found[0]), "the idle worker has left")
        with Service(settings) as service:
            assert service.workers() == []
        assert not Broker(settings).answers()


def test_a_worker_that_is_told_to_stop_leaves_its_run_to_the_next_one(new_home, until, is_running, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = submit(service, tmp_path, "echo begun; until test -e enough; do sleep 0.1; done", timeout=60)
        pid = service.ensure_worker().pid
        wait_for_output(service, run_id)
        os.kill(pid, signal.SIGTERM)
        until(lambda: not is_running(pid), "the worker has left, though the run goes on")
        assert service.get(run_id).status is RunStatus.PENDING
        with pytest.raises(WorkerUnavailable, match="start one with `fanfold worker`"):
            list(service.follow(run_id))
        service.cancel(run_id)


async def test_a_worker_that_is_told_to_stop_while_it_takes_a_run_leaves_it_too(new_home, tmp_path: Path) -> None:
    nudged: list[str] = []
    with new_home() as settings, Service(settings) as service:
        engine, loop = open_database(settings.database, settings.home / "database.lock"), asyncio.get_running_loop()
        worker = WorkerInfo("worker", "here", NO_PROCESS, 1, now(), now(), [QUEUE])
        Store(engine).worker_alive(worker)
        run_id = submit(service, tmp_path, "sleep 600")
        runner: Runner

        class ToldMeanwhile(Store):
            """The word comes when the run is this worker's, and before it watches over it."""

            def get(self, run_id: str) -> Run:
                loop.call_soon_threadsafe(runner.hand_over)
                return super().get(run_id)

        runner = Runner(settings, ToldMeanwhile(engine), worker.id, nudge=nudged.append)
        async with asyncio.timeout(30):
            await runner.execute(run_id)
        Store(engine).worker_gone(worker.id)
        engine.dispose()
        assert (service.get(run_id).status, nudged) == (RunStatus.PENDING, [run_id])
        service.cancel(run_id)


def test_a_run_whose_worker_was_killed_is_told_to_wait_for_the_next_one(
    new_home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = submit(service, tmp_path, "echo begun; sleep 600", timeout=120)
        first = service.ensure_worker()
        wait_for_output(service, run_id)
        os.kill(first.pid, signal.SIGKILL)
        monkeypatch.setattr(service_module, "WORKER_GRACE", 2.0)
        with pytest.raises(InfrastructureError, match=r"its worker .* is taken for dead"):
            list(service.follow(run_id))
        monkeypatch.undo()
        second = subprocess.Popen([sys.executable, "-m", "orchestrator.worker"], stderr=subprocess.DEVNULL)
        try:
            events = service.follow(run_id, after=max(event.seq for event in service.events(run_id)))
            next(event for event in events if event.type == "sandbox.adopted")
            assert service.get(run_id).attempt == 2
            service.cancel(run_id)
            assert list(service.follow(run_id))[-1].data["status"] == "cancelled"
            assert portal.run(get_provider("local", home=settings.home).find({"fanfold.run": run_id})) == []
            seqs = [event.seq for event in service.events(run_id)]
            assert seqs == list(range(1, len(seqs) + 1))
        finally:
            second.terminate()
            assert second.wait(30) == 0


def test_runs_that_the_queue_has_lost_are_found_by_an_idle_worker(new_home, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = submit(service, tmp_path, "echo found")
        with redis.Redis(unix_socket_path=str(Broker(settings).socket)) as client:
            client.flushall()
        service.ensure_worker()
        assert list(service.follow(run_id))[-1].data["status"] == "success"


def test_following_a_run_that_no_worker_will_take_is_an_error_and_not_a_hang(new_home, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = submit(service, tmp_path, "true")
        with pytest.raises(WorkerUnavailable, match="start one with `fanfold worker`"):
            list(service.follow(run_id))
        assert service.cancel(run_id).status is RunStatus.CANCELLED


def test_a_worker_that_cannot_come_up_is_told_with_its_reason(new_home, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_home() as settings, Service(settings) as service:
        monkeypatch.setenv("FANFOLD_NONSENSE", "1")
        with pytest.raises(WorkerUnavailable, match="FANFOLD_NONSENSE is not known"):
            service.ensure_worker()


def test_a_broker_that_is_not_there_fails_the_submission_and_leaves_no_waiting_run(new_home, tmp_path: Path) -> None:
    with new_home(REDIS_URL=f"redis+socket://{tmp_path}/nothing.sock") as settings, Service(settings) as service:
        with pytest.raises(InfrastructureError, match="the broker does not answer"):
            submit(service, tmp_path, "true")
        (run,) = service.list()
        assert (run.status, run.exit_code) == (RunStatus.ERROR, 3)


def test_the_command_line_of_a_worker_is_checked() -> None:
    command = [sys.executable, "-m", "orchestrator.worker", "--concurrency", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "--concurrency must be at least 1" in done.stderr
