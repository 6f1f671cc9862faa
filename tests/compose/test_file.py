"""infra/compose.yaml, read by both versions of Compose: it is locked down, refuses what is not given, and tells the truth."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from orchestrator.api.server import GRACE
from orchestrator.cli.app import app
from orchestrator.controller.process import END_SECONDS
from orchestrator.settings import PREFIX, Settings
from tests.acceptance.pages import ROOT
from tests.compose.stack import FILES, INFRA, programs, secrets_of_ours

Document = dict[str, Any]
ROLES = ("api", "controller", "worker", "migration")
SERVERS = ("postgresql", "redis", "prometheus", "grafana")
GIVEN = {**dict.fromkeys(secrets_of_ours(), "given"), "FANFOLD_PROVIDER": "modal", "DOCKER_GID": "999"}
SECONDS = 60
CHART = ROOT / "helm" / "fanfold"


def compose(program: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Call Compose with these variables and no others of ours."""
    return subprocess.run(
        [program, "--project-name", "ff-file", *arguments], cwd=INFRA, capture_output=True, text=True, timeout=SECONDS,
        check=False, env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environ},
    )  # fmt: skip


@cache
def read(number: int, files: tuple[str, ...] = FILES) -> Document:
    """What a version of Compose makes of the files, with every profile."""
    program = programs()[number - 1]
    named = [word for file in files for word in ("--file", file)]
    done = compose(program, *named, "config", **GIVEN, COMPOSE_PROFILES="watch,metrics")
    assert done.returncode == 0, done.stderr
    assert "WARN" not in done.stderr.upper(), done.stderr
    found: Document = yaml.safe_load(done.stdout)
    return found


@pytest.fixture(params=[1, 2])
def services(request: pytest.FixtureRequest) -> Document:
    found: Document = read(request.param)["services"]
    return found


def variables(service: Document) -> dict[str, str]:
    return {name: value for name, value in service["environment"].items() if value is not None}


def test_both_versions_know_all_services(services: Document) -> None:
    assert set(services) == {*ROLES, *SERVERS}


def test_every_service_is_locked_down(services: Document) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["user"].partition(":")[0]) > 0, name
        assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & set(service), name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert service["restart"] == ("no" if name == "migration" else "unless-stopped"), name


def test_images_are_pinned_and_can_be_others(services: Document) -> None:
    for name, service in services.items():
        assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"]), name
    text = (INFRA / "compose.yaml").read_text()
    assert text.count("image: ${") == text.count("image: ")


def test_the_images_are_those_of_the_chart(services: Document) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for service, bundled in (("postgresql", values["database"]), ("redis", values["redis"])):
        image = bundled["bundled"]["image"]
        assert services[service]["image"] == f"{image['repository']}:{image['tag']}"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert services["api"]["image"] == f"fanfold/controlplane:{version}"


def test_nothing_is_published_but_the_api_on_this_machine_alone() -> None:
    """Grafana, in a profile of its own, likewise."""
    published = {name: str(one["ports"]) for name, one in read(2)["services"].items() if "ports" in one}
    assert set(published) == {"api", "grafana"}
    assert all("127.0.0.1" in ports for ports in published.values())


def test_only_who_makes_sandboxes_has_the_socket_and_only_when_it_is_said() -> None:
    def having(files: tuple[str, ...]) -> set[str]:
        return {name for name, one in read(2, files)["services"].items() if "docker.sock" in str(one)}

    assert having(FILES[:1]) == set()
    assert having(FILES) == {"worker", "controller"}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", sorted(GIVEN))
def test_it_does_not_start_without_what_has_to_be_said(name: str, number: int) -> None:
    program = programs()[number - 1]
    given = {key: value for key, value in GIVEN.items() if key != name}
    for wrong in (given, {**given, name: ""}):
        done = compose(program, "--file", FILES[0], "--file", FILES[1], "config", "--quiet", **wrong)
        assert done.returncode != 0
        assert name in done.stderr or "infra/.env" in done.stderr or "where sandboxes are" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_no_secret_of_ours_is_in_the_files() -> None:
    for file in FILES:
        for line in (INFRA / file).read_text().splitlines():
            if re.search(r"(PASSWORD|SECRET|TOKEN|API_KEY)[A-Z_]*:", line):
                value = line.partition(": ")[2]
                assert not value or value.startswith(("${", "postgresql://fanfold:${", "redis://:${")), line


def test_each_command_is_one_of_the_command_line(services: Document) -> None:
    commands: Any = typer.main.get_command(app)
    for name in ROLES:
        called, *arguments = services[name]["command"]
        commands.commands[called].make_context(called, arguments)


def test_each_variable_is_a_setting(services: Document) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for name in ROLES:
        assert {one for one in services[name]["environment"] if one.startswith(PREFIX)} <= known, name


def test_every_role_has_the_same_record_broker_key_and_artifacts(services: Document) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "ARTIFACTS_URL", "PROVIDER"):
        assert len({variables(services[role])[PREFIX + name] for role in ("api", "controller", "worker")}) == 1, name
    assert variables(services["migration"])["FANFOLD_DATABASE_URL"] == variables(services["api"])["FANFOLD_DATABASE_URL"]


def test_the_schema_is_there_before_anybody_else(services: Document) -> None:
    for name in ("api", "controller", "worker"):
        assert services[name]["depends_on"]["migration"]["condition"] == "service_completed_successfully"
        assert services[name]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert services["migration"]["depends_on"]["postgresql"]["condition"] == "service_healthy"


def test_processes_have_the_time_that_they_take_to_end(services: Document) -> None:
    """As in the chart, where tests/chart/test_code.py says how long that is."""
    chart = yaml.safe_load((CHART / "values.yaml").read_text())
    least = {"api": GRACE, "controller": END_SECONDS, "worker": 159}
    for name, values in (("api", chart["api"]), ("controller", chart["controller"]), ("worker", chart["workerDefaults"])):
        grace = seconds(services[name]["stop_grace_period"])
        assert grace == values["terminationGracePeriodSeconds"]
        assert grace > least[name]


def seconds(duration: str) -> int:
    minutes, rest = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration).groups()  # type: ignore[union-attr]
    return 60 * int(minutes or 0) + int(rest or 0)


def test_what_is_mounted_from_here_is_here() -> None:
    for name, service in read(2)["services"].items():
        for volume in service.get("volumes", ()):
            if volume["type"] == "bind" and "docker.sock" not in volume["source"]:
                assert Path(volume["source"]).exists(), name
                assert volume["read_only"], name


def test_prometheus_takes_the_rules_and_the_configuration(tmp_path: Path) -> None:
    """Its own checker finds the rules where the file says that they are."""
    text = (INFRA / "prometheus.yaml").read_text()
    assert "/etc/prometheus/rules/*.yaml" in text
    (tmp_path / "prometheus.yaml").write_text(text.replace("/etc/prometheus/rules", str(INFRA / "prometheus")))
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yaml"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_every_role_is_asked_for_its_metrics(services: Document) -> None:
    asked = {
        found["names"][0]: found["port"]
        for job in yaml.safe_load((INFRA / "prometheus.yaml").read_text())["scrape_configs"]
        for found in job["dns_sd_configs"]
    }
    metrics = int(variables(services["worker"])["FANFOLD_METRICS_ADDR"].rpartition(":")[2])
    assert asked == {"api": 8000, "controller": metrics, "worker": metrics}
    assert str(variables(services["api"])["FANFOLD_METRICS_PUBLIC"]).lower() == "true"
    for name in (*asked, "prometheus"):
        assert "watch" in services[name]["networks"], name


def test_the_page_names_every_variable_of_the_file() -> None:
    page = (ROOT / "docs" / "compose.md").read_text()
    told = re.findall(r"\$\{(\w+)", "".join((INFRA / file).read_text() for file in FILES))
    assert {name for name in told if name not in page} <= {"DOCKER_SOCKET"}
