"""What keeps an installation whole: runs that lost their worker go on, sandboxes that lost their run go away."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from sqlalchemy import select

from orchestrator.broker import Broker
from orchestrator.controller.process import END_SECONDS
from orchestrator.queue import QUEUE
from orchestrator.runs.database import now
from orchestrator.runs.labels import INSTALLATION_LABEL, RUN_LABEL
from orchestrator.runs.leases import LEASE_TTL, MAX_LOST
from orchestrator.runs.models import Event, RunError, RunStatus, WorkerInfo
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.runs.tables import installation
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import WORKER, Start

ENDED_WITHIN = END_SECONDS + 5
"""Seconds that a controller may take to end; one that was made to ends with another exit code."""
NO_PROCESS = 2**22 + 1
"""An id that no process can have: Linux counts to 2**22."""
GENEROUS = 30.0
"""Seconds; the machine may be busy with other tests. What it took is printed."""
CONTROLLER = ("-m", "orchestrator.cli.main", "controller")


def submit(service: Service, base: Path, command: str, **more: object) -> str:
    return service.submit(RunSpec.model_validate({"command": command, **more}), base_dir=base).id


def first(service: Service, run_id: str, kind: str, after: int = 0) -> Event:
    return next(event for event in service.follow(run_id, after) if event.type == kind)


def pid_of(worker: str | None) -> int:
    assert worker is not None
    return int(worker.split(":")[1])


def test_a_run_goes_on_within_seconds_of_its_workers_death(new_home, until, start: Start, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = submit(service, tmp_path, "echo begun; sleep 600", timeout=120)
        for _ in range(2):
            start(*WORKER)
        until(lambda: len(service.workers()) == 2, "both workers are there")
        begun = first(service, run_id, "command.output")
        os.kill(pid_of(service.get(run_id).worker), signal.SIGKILL)
        killed = time.monotonic()
        again = first(service, run_id, "run.started", after=begun.seq)
        took = time.monotonic() - killed
        print(f"\na run went on {took:.2f} s after its worker was killed")
        assert took < GENEROUS
        assert again.data["attempt"] == 2
        service.cancel(run_id)
        assert first(service, run_id, "run.finished").data["status"] == "cancelled"


def test_a_pending_run_is_found_when_the_broker_forgot_it_though_the_workers_are_busy(
    new_home, until, start: Start, tmp_path: Path
) -> None:
    with new_home() as settings, Service(settings) as service:
        start(*WORKER, "--concurrency", "1")
        until(service.workers, "the worker is there")
        busy = submit(service, tmp_path, "echo begun; until test -e enough; do sleep 0.1; done", timeout=60)
        first(service, busy, "command.output")
        waiting = submit(service, tmp_path, "echo found")
        with redis.Redis(unix_socket_path=str(Broker(settings).socket)) as client:
            client.flushall()
        service.cancel(busy)
        assert first(service, waiting, "run.finished").data["status"] == "success"


def test_a_run_that_kills_its_workers_is_given_up(new_home, until, start: Start, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id, seen = submit(service, tmp_path, "echo begun; sleep 600", timeout=300), 0
        begun = []
        for number in range(1, MAX_LOST + 1):
            worker = start(*WORKER)
            event = first(service, run_id, "run.started", after=seen)
            assert event.data["attempt"] == number
            seen = first(service, run_id, "command.output" if number == 1 else "sandbox.adopted", after=event.seq).seq
            begun.append(time.monotonic())
            worker.kill()
            worker.wait()
        start(*WORKER)
        first(service, run_id, "run.finished", after=seen)
        run = service.get(run_id)
        assert run.status is RunStatus.ERROR
        assert run.error is not None
        assert "died 5 times" in run.error.message
        assert run.error.message.count("lost after") == MAX_LOST
        pauses = [after - before for before, after in pairwise(begun)]
        print(f"\nattempts of a run that kills its workers began after {', '.join(f'{pause:.1f}' for pause in pauses)} s")
        assert pauses[-1] > LEASE_TTL + 2  # with a heartbeat just before the end, and a slow start of the one before


def test_when_the_leading_controller_dies_another_one_leads_and_recovers(new_home, until, start: Start, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service, leading(settings) as leader:
        controllers = {process.pid: process for process in (start(*CONTROLLER), start(*CONTROLLER))}
        until(leader, "one of them leads")
        old = leader()
        assert old in controllers
        controllers[old].kill()
        died = time.monotonic()
        until(lambda: leader() != old, "the other one leads")
        print(f"\nanother controller led {time.monotonic() - died:.1f} s after the first one was killed")
        assert leader() in controllers
        # and it does what a leader does: the queue has forgotten this run, which was sent to a worker that is gone
        with counting_on_a_worker(settings):
            run_id = submit(service, tmp_path, "echo found")
        with redis.Redis(unix_socket_path=str(Broker(settings).socket)) as client:
            client.flushall()
            until(lambda: client.llen(QUEUE), "the run is on the queue again")
        service.cancel(run_id)


def test_a_controller_that_is_told_to_stop_hands_over(new_home, until, start: Start) -> None:
    with new_home() as settings, leading(settings) as leader:
        controller = start(*CONTROLLER)
        until(leader, "it leads")
        controller.terminate()
        assert controller.wait(ENDED_WITHIN) == 0
        assert leader() is None


SIGNAL_ELSEWHERE = """
import signal, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
from orchestrator.cli.main import main
sys.argv = ["fanfold", "controller"]
sys.exit(main())
"""


def test_a_controller_hears_a_signal_that_another_thread_was_given(new_home, until, start: Start) -> None:
    with new_home() as settings, leading(settings) as leader:
        controller = start("-c", SIGNAL_ELSEWHERE)
        until(leader, "it leads")
        controller.terminate()
        assert controller.wait(ENDED_WITHIN) == 0


def test_a_controller_ends_though_a_docker_engine_that_it_has_asked_is_silent(
    new_home, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_home() as settings, socket.socket(socket.AF_UNIX) as engine:
        address = settings.home / "docker.sock"
        engine.bind(str(address))
        engine.listen()
        engine.settimeout(GENEROUS)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{address}")
        controller = start(*CONTROLLER)
        engine.accept()[0].close()  # whether anybody listens
        with engine.accept()[0] as request:
            request.settimeout(GENEROUS)
            assert request.recv(100).startswith(b"GET /")
            controller.terminate()
            assert controller.wait(ENDED_WITHIN) == 0


@contextmanager
def leading(settings: Settings) -> Iterator[Callable[[], int | None]]:
    """Tells the process that leads according to the record."""
    engine = open_database(settings.database, settings.home / "database.lock")

    def leader() -> int | None:
        with engine.connect() as connection:
            name = connection.execute(select(installation.c.leader)).scalar_one()
            return pid_of(name) if name else None

    yield leader
    engine.dispose()


@contextmanager
def counting_on_a_worker(settings: Settings) -> Iterator[None]:
    """Meanwhile the record has a worker that is no process, so that what is submitted is sent to it."""
    store = Store(open_database(settings.database, settings.home / "database.lock"))
    worker = WorkerInfo("gone:0:abc", "gone", NO_PROCESS, 1, now(), now())
    store.worker_alive(worker)
    try:
        yield
    finally:
        store.worker_gone(worker.id)
        store.close()


DIES_IN_THE_MIDDLE = """
import os, signal
from {module} import {place} as place
from orchestrator.worker.__main__ import main
done = place.{call}
def dies(*arguments, **named):
    if "probe-" in repr(arguments):  # a trial, before anything is made
        return done(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
place.{call} = dies
main([])
"""


@pytest.mark.parametrize(
    ("provider_name", "module", "place", "call"),
    [
        pytest.param("local", "orchestrator.runs.store", "Store", "set_sandbox", id="before-the-record-knew-it"),
        pytest.param("local", "sandboxes.providers.local", "launch", "launch", id="before-it-was-launched"),
        pytest.param("local", "sandboxes.providers.local.jail", "Layout", "make", id="before-it-had-its-folders"),
        pytest.param("docker", "docker", "APIClient", "start", id="before-docker-started-it", marks=pytest.mark.docker),
    ],
)
def test_a_sandbox_whose_maker_was_killed_in_the_middle_goes_with_its_run_and_those_of_others_stay(
    new_home, until, start: Start, tmp_path: Path, provider_name: str, module: str, place: str, call: str
) -> None:
    with new_home(DOCKER_IMAGE="fanfold-test/base:latest") as settings, Service(settings) as service, ExitStack() as stack:
        provider = get_provider(provider_name, home=settings.home)

        def there() -> set[str]:
            return {found.id for found in portal.run(provider.find())}

        run_id = submit(service, tmp_path, "true", sandbox={"provider": provider_name})
        dying = start("-c", DIES_IN_THE_MIDDLE.format(module=module, place=place, call=call))
        assert dying.wait(60) == -signal.SIGKILL
        assert service.get(run_id).sandbox is None
        (orphan,) = portal.run(provider.find({RUN_LABEL: run_id}))
        strangers = set()
        for labels in ({**orphan.labels, INSTALLATION_LABEL: "somebody else's"}, {RUN_LABEL: run_id}, {}):
            stranger = portal.run(provider.create(SandboxSpec(), labels))
            stack.callback(lambda handle=stranger: portal.run(provider.destroy(handle)))
            strangers.add(stranger.id)
        end_without_a_worker(settings, run_id)

        began = time.monotonic()
        controller = start(*CONTROLLER)
        until(lambda: orphan.id not in there(), "the orphan is gone")
        print(f"\nthe orphan was gone {time.monotonic() - began:.1f} s after a controller had started")
        controller.terminate()
        assert controller.wait(ENDED_WITHIN) == 0
        assert strangers <= there()


def end_without_a_worker(settings: Settings, run_id: str) -> None:
    """Let a run whose worker has died end, by the clock of somebody who comes later."""
    store = Store(
        open_database(settings.database, settings.home / "database.lock"),
        clock=lambda: now() + timedelta(seconds=LEASE_TTL + 1),
    )
    lease = store.claim(run_id, "the test")
    assert lease is not None
    store.finish(lease, RunStatus.ERROR, RunError("infrastructure", "given up"))
    store.close()
