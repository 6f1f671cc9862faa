"""Runs wait in the record, and begin as soon as there is room: a real broker, real workers."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.broker import Broker
from orchestrator.errors import QuotaExceeded
from orchestrator.runs.models import Event, RunStatus
from orchestrator.runs.tenants import Limits, Tenants
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from orchestrator.wake import WAITS, Bell, client_url
from tests.integration.orchestrator.conftest import WORKER, Start


def submit(service: Service, base: Path, command: str, **more: object) -> str:
    return service.submit(RunSpec.model_validate({"command": command, **more}), base_dir=base).id


def ended(service: Service, run_id: str) -> Event:
    return list(service.follow(run_id))[-1]


def has_worked(service: Service, base: Path) -> None:
    """Wait until a worker has executed a run."""
    assert ended(service, submit(service, base, "true")).data["status"] == "success"


def started(service: Service, run_id: str) -> float:
    at = service.get(run_id).started_at
    assert at is not None
    return at.timestamp()


def test_a_run_that_was_submitted_before_any_worker_was_there_begins_with_the_first(new_home, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = submit(service, tmp_path, "true")
        assert service.get(run_id).status is RunStatus.PENDING
        service.ensure_worker()
        assert ended(service, run_id).data["status"] == "success"


def test_more_runs_than_there_is_room_for_all_end(
    new_home, until, start: Start, tmp_path: Path
) -> None:
    with new_home() as settings, Service(settings) as service:
        start(*WORKER, "--concurrency", "2")
        until(service.workers, "the worker is there")
        has_worked(service, tmp_path)
        began = time.monotonic()
        runs = [submit(service, tmp_path, "true") for _ in range(12)]
        assert {ended(service, run_id).data["status"] for run_id in runs} == {"success"}
        print(f"\n12 runs on a worker of 2 took {time.monotonic() - began:.1f} s")


def test_another_tenants_first_run_does_not_wait_for_all_of_the_first_ones(
    new_home, until, start: Start, tmp_path: Path
) -> None:
    with new_home() as settings, Service(settings) as service:
        small = service.of("small")
        many = [submit(service, tmp_path, "true") for _ in range(12)]
        one = submit(small, tmp_path, "true")
        start(*WORKER, "--concurrency", "1")
        until(service.workers, "the worker is there")
        assert ended(small, one).data["status"] == "success"
        assert {ended(service, run_id).data["status"] for run_id in many} == {"success"}
        assert sum(started(service, run_id) < started(small, one) for run_id in many) <= 3


def test_a_tenant_never_has_more_runs_at_work_than_it_may(new_home, until, start: Start, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        Tenants(service._of.engine).set("default", Limits(max_running=1, max_queued=3))
        start(*WORKER, "--concurrency", "4")
        until(service.workers, "the worker is there")
        has_worked(service, tmp_path)
        runs = [submit(service, tmp_path, "sleep 0.3") for _ in range(4)]
        with pytest.raises(QuotaExceeded):
            submit(service, tmp_path, "true")
        assert {ended(service, run_id).data["status"] for run_id in runs} == {"success"}
        times = [(started(service, run_id), service.get(run_id).finished_at) for run_id in runs]
        for (_, finished), (following, _) in pairwise(times):
            assert finished is not None
            assert following >= finished.timestamp()


def test_a_run_goes_to_a_worker_of_its_queue(new_home, until, start: Start, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('routes: [{label: "team=ml", queue: ml}]\n')
    with new_home(POLICY=str(policy)) as settings, Service(settings) as service:
        plain = start(*WORKER, "--concurrency", "2")
        until(service.workers, "the worker is there")
        waits = submit(service, tmp_path, "true", labels={"team": "ml"})
        goes = submit(service, tmp_path, "true")
        assert ended(service, goes).data["status"] == "success"
        assert service.get(waits).status is RunStatus.PENDING
        other = start(*WORKER, "--concurrency", "1", "--queues", "ml,other")
        assert ended(service, waits).data["status"] == "success"
        pids = [int(str(service.get(run_id).worker).split(":")[1]) for run_id in (goes, waits)]
        assert pids == [plain.pid, other.pid]


def test_a_bell_is_heard_over_the_embedded_broker_also_after_its_restart(new_home, until) -> None:
    with new_home() as settings:
        broker = Broker(settings)
        broker.ensure()
        listener, ringer, heard = Bell(broker.url, WAITS), Bell(broker.url, WAITS), threading.Semaphore(0)
        try:
            listener.listen(lambda _: heard.release())
            for _ in range(2):
                assert heard.acquire(timeout=30), "who begins to listen looks at once"
                ringer.ring()
                assert heard.acquire(timeout=30)
                broker.stop()
                broker.ensure(surely=True)
        finally:
            listener.close()
            ringer.close()


@pytest.mark.parametrize(
    ("broker", "client"),
    [
        ("redis+socket:///a/b.sock", "unix:///a/b.sock?db=0"),
        ("redis+socket:///a/b.sock?virtual_host=2", "unix:///a/b.sock?db=2"),
        ("redis://:secret@host:1/3", "redis://:secret@host:1/3"),
        ("sentinel://host:1", None),
    ],
)
def test_the_address_of_the_broker_as_its_client_writes_it(broker: str, client: str | None) -> None:
    assert client_url(broker) == client
