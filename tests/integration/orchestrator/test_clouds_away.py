"""A cloud that is away, or full, in a list with docker: the run is made there, once, and told why; and it is tried again."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.runs.labels import INSTALLATION_LABEL
from orchestrator.runs.models import Run, RunStatus
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import wait_until, working
from tests.scraping import read
from tests.wire.clouds import Cloud, daytona, modal
from tests.wire.daytona.server import WireServer
from tests.wire.modal.fixtures import IMAGE, exported, modal_server

__all__ = ["modal_server"]
pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

FAILURES = 2
"""Outages after which the breaker opens here."""
COOL_DOWN = "6s"
"""Longer than a run takes on docker, so that one finds the breaker open."""
REAPED_SECONDS = 120.0
"""For whoever looks for orphans to come by, after it had failed for a while."""


@dataclass(frozen=True)
class Finished:
    """A run that has ended, and why its sandbox was not where it was wanted."""

    run: Run
    chosen: dict[str, Any]

    @property
    def where(self) -> str:
        assert (self.run.status, self.run.error) == (RunStatus.SUCCESS, None)
        return self.run.provider

    @property
    def reasons(self) -> dict[str, str]:
        return {one["provider"]: one["reason"] for one in self.chosen["passed_over"]}


@pytest.fixture(scope="module", params=["modal", "daytona"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    if request.param == "modal":
        yield modal(request.getfixturevalue("modal_server"))
        return
    with WireServer() as server, exported(server.variables):
        yield daytona(server)


@pytest.fixture(scope="module")
def address() -> str:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(scope="module")
def service(new_home: Any, cloud: Cloud, address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    breaker = f"{{failures: {FAILURES}, cool_down: {COOL_DOWN}}}"
    policy.write_text(f"providers: {{{cloud.name}: {{breaker: {breaker}}}, docker: {{}}}}")
    variables = {"MODAL_IMAGE": IMAGE, "DOCKER_IMAGE": IMAGE, "METRICS_ADDR": address, "POLICY": str(policy)}
    with new_home(**variables) as settings, Service(settings) as opened, working(opened):
        yield opened


@pytest.fixture
def run(service: Service, cloud: Cloud, tmp_path: Path) -> Callable[[], Finished]:
    """Runs a command on the cloud, or else on docker, to its end."""

    def to_its_end() -> Finished:
        sandbox = {"providers": [cloud.name, "docker"], "weaker_isolation": "allow"}
        task = RunSpec.model_validate({"command": "echo done", "sandbox": sandbox})
        run_id = service.submit(task, base_dir=tmp_path).id
        [chosen] = [event.data for event in service.follow(run_id) if event.type == "provider.chosen"]
        return Finished(service.get(run_id), chosen)

    return to_its_end


@pytest.fixture(autouse=True)
def nothing_is_left(service: Service, cloud: Cloud) -> Iterator[None]:
    yield
    wait_until(lambda: cloud.there() == [], "no sandbox is left on the platform")
    installation = {INSTALLATION_LABEL: service._of.store.installation()}
    assert portal.run(get_provider("docker", home=service._of.settings.home).find(installation)) == []


def circuit(address: str, cloud: Cloud) -> str | None:
    """The breaker of the cloud, as the worker tells it; None before the first try."""
    found = read(httpx.get(f"http://{address}/metrics", trust_env=False).raise_for_status().content)
    states = [value for (name, labels), value in found.items() if "circuit" in name and labels == (cloud.name,)]
    return ("closed", "half-open", "open")[int(states[0])] if states else None


def tried_again(run: Callable[[], Finished], address: str, cloud: Cloud) -> None:
    """The cloud answers again: the next run that may try it is there, and the breaker is closed."""
    wait_until(lambda: circuit(address, cloud) != "open", "the cloud is left alone no longer")
    before = cloud.created()
    assert (back := run()).where == cloud.name
    assert back.reasons == {}
    assert cloud.created() == before + 1
    assert circuit(address, cloud) == "closed"


def test_while_it_is_away_runs_are_on_docker_and_afterwards_there_again(
    run: Callable[[], Finished], cloud: Cloud, address: str
) -> None:
    with cloud.away():
        made = [run() for _ in range(FAILURES + 1)]
        assert circuit(address, cloud) in ("open", "half-open")
    assert [one.where for one in made] == ["docker"] * len(made)
    first, *_, last = (one.reasons[cloud.name] for one in made)
    assert cloud.name in first.lower()
    assert "left alone for" in last
    assert cloud.there() == []
    tried_again(run, address, cloud)


def test_while_the_account_is_full_runs_are_on_docker_and_afterwards_there_again(
    run: Callable[[], Finished], cloud: Cloud, address: str
) -> None:
    before = cloud.created()
    with cloud.full():
        done = run()
    assert done.where == "docker"
    assert "no room" in done.reasons[cloud.name]
    assert cloud.created() == before + 1  # a quota is not tried twice
    assert cloud.there() == []
    tried_again(run, address, cloud)


def test_a_sandbox_that_was_made_in_an_outage_and_not_told_of_is_ended_and_not_made_twice(
    run: Callable[[], Finished], cloud: Cloud, address: str
) -> None:
    with cloud.losing():
        done = run()
        left = cloud.there()
    assert done.where == "docker"
    assert len(left) == 1
    end = time.monotonic() + REAPED_SECONDS
    while cloud.there():
        assert time.monotonic() < end, f"{left} was not ended"
        time.sleep(0.1)
    tried_again(run, address, cloud)
