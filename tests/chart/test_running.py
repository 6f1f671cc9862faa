"""The pods of the chart run: as their own user, on a read-only root, with its variables, arguments and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.acceptance.conftest import Fanfold
from tests.chart.charts import CHART, Rendered, render, values_of
from tests.chart.node import BASE, Node, node_for
from tests.images.built import docker
from tests.scraping import read

SERVERS = ("postgresql", "redis", "engine")
PROCESSES = ("api", "controller", "worker")

TASK = f"""
name: whole-way
command: tr a-z A-Z <note >report
inputs: {{path: ./repo}}
outputs: {{files: [report]}}
sandbox: {{provider: docker, image: "{BASE}"}}
"""

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Running:
    """A release that is up."""

    rendered: Rendered
    node: Node
    containers: dict[str, str]

    def get(self, component: str, port: int, path: str, **headers: str) -> httpx.Response:
        """Ask a pod."""
        address = self.node.address(self.containers[component])
        return httpx.get(f"http://{address}:{port}{path}", headers=headers, trust_env=False)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    values = values_of(CHART / "ci" / "trial.yaml")
    # Nobody translates the ports of Services here.
    rendered = render({**values, "api": {"service": {"port": 8000}}, "policy": {"caps": {"provider": {"docker": 3}}}})
    containers: dict[str, str] = {}
    with node_for(rendered) as node:
        for component in SERVERS:
            containers[component] = node.start(component)
        for component in SERVERS:
            node.await_ready(component, containers[component])
        containers["migration"] = node.start("migration")
        assert node.end(containers["migration"]) == 0, node.logs(containers["migration"])
        for component in PROCESSES:
            containers[component] = node.start(component)
        for component in PROCESSES:
            node.await_ready(component, containers[component])
        yield Running(rendered, node, containers)


def test_the_migration_made_the_schema(running: Running) -> None:
    assert "is at revision" in running.node.logs(running.containers["migration"])


def test_the_pod_of_helm_test_succeeds(running: Running) -> None:
    container = running.node.start("test")
    assert running.node.end(container) == 0, running.node.logs(container)
    assert '"status":"ok"' in running.node.logs(container)


def test_the_first_key_is_made_as_the_notes_say_and_the_api_knows_the_worker(running: Running) -> None:
    made = running.node.call(running.containers["api"], "fanfold", "keys", "create", "first", "--scope", "admin")
    assert made.returncode == 0, made.stderr
    workers = running.get("api", 8000, "/v1/workers", Authorization=f"Bearer {made.stdout.strip()}")
    assert [worker["concurrency"] for worker in workers.json()["items"]] == [4]
    assert running.get("api", 8000, "/metrics").status_code == 401


def test_controllers_and_workers_tell_their_metrics(running: Running) -> None:
    told = read(running.get("controller", 9464, "/metrics").content)
    assert told["fanfold_record_up", ()] == told["fanfold_workers", ()] == 1
    assert told["fanfold_worker_slots", ()] == 4
    assert running.get("worker", 9464, "/metrics").is_success


def test_a_run_goes_the_whole_way(running: Running, tmp_path: Path) -> None:
    """From an upload to the API, through a worker that reaches the engine over TLS, to an artifact on the volume of both."""
    made = running.node.call(running.containers["api"], "fanfold", "keys", "create", "runs")
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "note").write_text("from afar\n")
    (tmp_path / "task.yaml").write_text(TASK)
    api = f"http://{running.node.address(running.containers['api'])}:8000"
    fanfold = Fanfold(tmp_path / "home", {"FANFOLD_URL": api, "FANFOLD_API_KEY": made.stdout.strip(), "NO_PROXY": "*"})
    done = fanfold("run", tmp_path / "task.yaml", "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr + running.node.logs(running.containers["worker"])
    assert (tmp_path / "out" / "files" / "report").read_text() == "FROM AFAR\n"


def test_nobody_enters_the_broker_without_its_password(running: Running) -> None:
    refused = running.node.call(running.containers["redis"], "redis-cli", "ping")
    assert "NOAUTH" in refused.stdout


def test_the_processes_are_nobody_special(running: Running) -> None:
    for component in PROCESSES:
        status = running.node.call(running.containers[component], "cat", "/proc/1/status").stdout
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert found["Uid"].split() == ["10001"] * 4
        assert int(found["CapEff"], 16) == 0
        assert found["NoNewPrivs"] == "1"
        written = running.node.call(running.containers[component], "sh", "-c", "echo x >/opt/fanfold/x || echo x >/x")
        assert written.stderr.count("Read-only file system") == 2


def test_each_process_ends_by_itself_when_it_is_told_to(running: Running) -> None:
    for component in ("worker", "controller", "api"):
        code, seconds = running.node.stop(component, running.containers[component])
        assert code == 0, running.node.logs(running.containers[component])
        assert seconds < running.rendered.workload(component).spec["terminationGracePeriodSeconds"]


def test_a_home_that_is_the_volume_itself_would_be_refused(running: Running) -> None:
    """Its owner is root, and only an owner can make a folder private: so the home is a folder in the volume."""
    options = ["--rm", "--user", "10001:10001", "--tmpfs", "/home:mode=2777", "--entrypoint", "chmod"]
    done = docker("run", *options, BASE, "700", "/home", check=False)
    assert "Operation not permitted" in done.stderr
