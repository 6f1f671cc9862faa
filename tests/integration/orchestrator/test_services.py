"""The whole way on a real PostgreSQL and a real Redis, behind passwords: in containers, and once more known by addresses alone.

The API, a controller and workers are apart, as an operator runs them. Each test that takes a server away does so in the middle
of runs, by force.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
import yaml

from orchestrator.client import Client
from orchestrator.client.models import Event, Run
from orchestrator.errors import InfrastructureError
from orchestrator.runs.models import RunStatus
from orchestrator.runs.tenants import Limits, Tenants
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.containers import servers_in_containers
from tests.served import Api, serving
from tests.servers import PASSWORD, Servers, servers_by_url

pytestmark = pytest.mark.timeout(300)

DEADLINE = 90.0
"""Seconds for anything here to come true."""
CALLS = 6
"""Tool calls of most agents here, one after the other; each writes a line and takes a while."""
EXPECTED = [str(number) for number in range(CALLS)]


@dataclass(frozen=True)
class Place:
    """An installation whose record and broker are elsewhere."""

    servers: Servers
    settings: Settings
    service: Service
    api: Api
    client: Client
    log: Path
    """What its processes said."""

    def surely(self, ask: Callable[[], Any]) -> Any:
        """What `ask` gives; it is asked again while a server is away."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                return ask()
            except InfrastructureError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that is ready, ended in the end."""
        with self.process("worker", "-c", "4") as process:
            wait_until(lambda: process.pid in {one.pid for one in self.client.workers()}, "the worker is there")
            yield process

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of the installation, ended in the end."""
        with self.log.open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", "orchestrator.cli.main", *arguments], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)

    def submit(self, base: Path, **task: Any) -> str:
        """Order a run; its id."""
        return str(self.surely(lambda: self.client.runs.create(RunSpec.model_validate(task), base_dir=base)).id)

    def agent(self, base: Path, turns: list[dict[str, Any]], **told: Any) -> str:
        """Order a run of an agent that follows a script; its id."""
        (base / "script.yaml").write_text(yaml.safe_dump({"turns": turns}))
        agent = {"prompt": "go", "model": "scripted:script.yaml", **told}
        return self.submit(base, agent=agent, outputs={"files": ["ledger"]})

    def first(self, run_id: str, wanted: Callable[[Event], bool]) -> Event:
        """The first event of this kind; waits for it."""
        seen = []
        for event in self.client.runs.follow(run_id):
            if wanted(event):
                return event
            seen.append(event)
        raise AssertionError(f"{run_id} ended without it: {seen[-3:]}")

    def ended(self, run_id: str) -> tuple[Run, list[Event]]:
        """The run when it has ended, and all of its events."""
        wait_until(lambda: self.surely(lambda: self.client.runs.get(run_id)).status.terminal, f"{run_id} has ended")
        return self.client.runs.get(run_id), list(self.client.runs.events(run_id, limit=1000).items)

    def ledger(self, run_id: str) -> list[str]:
        """The lines that a run has left."""
        content = BytesIO()
        self.client.runs.download(run_id, "files/ledger", content)
        return content.getvalue().decode().split()

    def sandboxes(self) -> list[str]:
        """Those of all runs."""
        return [one.id for one in portal.run(get_provider("local", home=self.settings.home).find())]


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE:.0f} s in vain until {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module", params=[pytest.param("containers", marks=pytest.mark.docker), "addresses"])
def servers(request: pytest.FixtureRequest, given_servers: dict[str, str]) -> Iterator[Servers]:
    with servers_in_containers() if request.param == "containers" else servers_by_url(given_servers) as found:
        yield found


@pytest.fixture(scope="module")
def place(servers: Servers, new_home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    log = tmp_path_factory.mktemp("services") / "log"
    with ExitStack() as stack:
        database_url = stack.enter_context(servers.fresh_database())
        settings = stack.enter_context(new_home(DATABASE_URL=database_url, REDIS_URL=servers.redis_url))
        service = stack.enter_context(Service(settings))
        api = stack.enter_context(serving(service))
        client = stack.enter_context(Client(api.url, api.key))
        made = Place(servers, settings, service, api, client, log)
        stack.enter_context(made.process("controller"))
        yield made


def ledger_turns(seconds: float, calls: int = CALLS) -> list[dict[str, Any]]:
    turns = [
        {"tool_calls": [{"id": f"c{n}", "name": "execute", "args": {"command": f"echo {n} >> ledger; sleep {seconds}"}}]}
        for n in range(calls)
    ]
    return [*turns, {"text": "done"}]


def call(number: int) -> Callable[[Event], bool]:
    return lambda event: event.type == "tool.call" and event.data["id"] == f"c{number}"


def output_of(events: list[Event]) -> str:
    return "".join(event.data["text"] for event in events if event.type == "command.output")


def assert_whole(place: Place, run_id: str) -> None:
    """A run of `ledger_turns` has succeeded, and did and told each of its calls once."""
    run, events = place.ended(run_id)
    assert (run.status, run.error) == (RunStatus.SUCCESS, None)
    assert place.ledger(run_id) == EXPECTED
    for kind in ("tool.call", "tool.result"):
        assert [event.data["id"] for event in events if event.type == kind] == [f"c{n}" for n in range(CALLS)], kind
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_a_command_goes_the_whole_way(place: Place, tmp_path: Path) -> None:
    with place.worker():
        run_id = place.submit(tmp_path, command="seq 500; echo made > made.txt", outputs={"files": ["*.txt"]})
        run, events = place.ended(run_id)
    assert (run.status, run.exit_code) == (RunStatus.SUCCESS, 0)
    assert output_of(events).split() == [str(number) for number in range(1, 501)]
    assert [one.name for one in place.client.runs.artifacts(run_id)] == ["files/made.txt"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert place.sandboxes() == []


def test_a_person_decides_and_another_worker_goes_on(place: Place, tmp_path: Path) -> None:
    with place.worker():
        run_id = place.agent(tmp_path, ledger_turns(0, calls=2), interrupt_on={"execute": True})
        place.first(run_id, lambda event: event.type == "run.interrupted")
    with place.worker():
        for number in range(2):
            wait_until(lambda: place.client.runs.get(run_id).status is RunStatus.INTERRUPTED, f"it asks about call {number}")
            place.client.runs.decide(run_id, [{"type": "approve"}])
        run, _ = place.ended(run_id)
    assert (run.status, place.ledger(run_id)) == (RunStatus.SUCCESS, EXPECTED[:2])
    assert place.sandboxes() == []


def test_runs_are_cancelled_at_work_and_in_the_queue(place: Place, tmp_path: Path) -> None:
    waiting = place.submit(tmp_path, command="true")
    assert place.client.runs.cancel(waiting).status is RunStatus.CANCELLED
    with place.worker():
        run_id = place.submit(tmp_path, command="echo begun; sleep 600")
        place.first(run_id, lambda event: event.type == "command.output")
        place.client.runs.cancel(run_id)
        assert place.ended(run_id)[0].status is RunStatus.CANCELLED
        wait_until(lambda: place.sandboxes() == [], "its sandbox is gone")


def test_a_worker_is_killed_and_nothing_happens_twice(place: Place, tmp_path: Path) -> None:
    with place.worker() as worker:
        run_id = place.agent(tmp_path, ledger_turns(0.5))
        place.first(run_id, call(2))
        worker.send_signal(signal.SIGKILL)
        assert worker.wait(30) == -signal.SIGKILL
    with place.worker():
        assert_whole(place, run_id)
    assert place.client.runs.get(run_id).lost == 1
    assert place.sandboxes() == []


@pytest.mark.parametrize("lost", ["redis", "postgres", "both"])
def test_servers_break_in_the_middle_of_runs_and_nothing_is_lost(place: Place, tmp_path: Path, lost: str) -> None:
    with place.worker():
        runs = [place.agent(tmp_path, ledger_turns(0.5))]
        count = "for n in $(seq 1 40); do echo line $n; sleep 0.1; done"
        command = place.submit(tmp_path, command=count)
        waiting = [place.submit(tmp_path, command=f"sleep 0.5; echo {n}") for n in range(8)]
        place.first(runs[0], call(1))
        place.first(command, lambda event: event.type == "command.output")
        if lost in ("redis", "both"):
            place.servers.lose_redis()
        if lost in ("postgres", "both"):
            place.servers.lose_postgres()
        waiting.append(place.submit(tmp_path, command="echo 8"))
        runs.append(place.agent(tmp_path, ledger_turns(0)))
        for run_id in runs:
            assert_whole(place, run_id)
        run, events = place.ended(command)
        assert (run.status, output_of(events)) == (RunStatus.SUCCESS, "".join(f"line {n}\n" for n in range(1, 41)))
        for number, run_id in enumerate(waiting):
            run, events = place.ended(run_id)
            assert (run.status, output_of(events)) == (RunStatus.SUCCESS, f"{number}\n")
    assert place.sandboxes() == []


def test_runs_that_wait_for_a_worker_outlive_both_servers(place: Place, tmp_path: Path) -> None:
    runs = [place.submit(tmp_path, command="true") for _ in range(4)]
    place.servers.lose_redis()
    place.servers.lose_postgres()
    with place.worker():
        assert {place.ended(run_id)[0].status for run_id in runs} == {RunStatus.SUCCESS}


def test_a_tenants_requests_are_counted_in_the_brokers_own_database(place: Place) -> None:
    client = place.api.of("small")
    Tenants(place.service._of.engine).set("small", Limits(max_requests=3))
    assert [client.get("/v1/runs").status_code for _ in range(4)] == [200, 200, 200, 429]
    with redis.Redis.from_url(place.servers.redis_url) as broker:
        assert broker.exists("fanfold:requests:small")


def test_no_process_says_a_password(place: Place) -> None:
    said = place.log.read_text()
    assert "worker" in said
    assert PASSWORD not in said
    assert quote(PASSWORD, safe="") not in said
