"""What the chart says of Fanfold is so: commands, ports, probes, variables, files, and how long each process takes to end."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from orchestrator.api.routes import health
from orchestrator.api.server import GRACE
from orchestrator.cli.api import DEFAULT_PORT
from orchestrator.cli.app import app
from orchestrator.controller.loop import STOP_TIMEOUT as CONTROLLER_STOP
from orchestrator.controller.process import END_SECONDS
from orchestrator.models import MODEL_KEYS
from orchestrator.policy import Policy, load_policy
from orchestrator.queue import QUEUE, queue_names
from orchestrator.runs.prices import load_prices
from orchestrator.settings import PREFIX, Settings, load_settings
from orchestrator.vault import keys_of
from orchestrator.worker.execution import STOP_TIMEOUT as RUN_STOP
from orchestrator.worker.process import HEARTBEAT
from tests.chart.charts import CHART, ROOT, SECRETS, Document, Rendered, Workload, environment, render, values_of

SITE = Path(typer.__file__).parents[1]


@dataclass(frozen=True)
class Process:
    """`fanfold` in a container."""

    workload: Workload
    container: Document
    environment: dict[str, str]

    @property
    def component(self) -> str:
        return self.workload.component


def processes(rendered: Rendered) -> Iterator[Process]:
    for workload, container in rendered.processes():
        yield Process(workload, container, environment(rendered, container))


def settings_of(process: Process, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings with these variables and no others, files of ConfigMaps aside."""
    with monkeypatch.context() as patched:
        for name in SECRETS:
            patched.delenv(name, raising=False)
        for name, value in process.environment.items():
            patched.setenv(name, value)
        return load_settings(make_home=False)


def test_each_command_is_one_of_the_command_line_with_its_options(rendered: Rendered) -> None:
    commands: Any = typer.main.get_command(app)
    found = {}
    for process in processes(rendered):
        name, *arguments = process.container["args"]
        found[process.component] = name
        commands.commands[name].make_context(name, arguments)  # it raises for an option that is not known
    migrating = {"migration": "migrate"} if rendered.of("Job") else {}
    assert found == {"api": "api", "controller": "controller", "worker": "worker", **migrating}


def test_each_variable_is_a_setting_and_all_of_them_are_accepted(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    for process in processes(rendered):
        settings = settings_of(process, monkeypatch)
        names = {name for name in process.environment if name.startswith(PREFIX)}
        assert names <= {PREFIX + name.upper() for name in Settings.model_fields}
        assert "POSTGRES" not in settings.database
        assert "$(" not in " ".join(process.environment.values())


def test_every_process_shares_record_broker_artifacts_keys_and_policy(rendered: Rendered) -> None:
    shared = ("DATABASE_URL", "REDIS_URL", "ARTIFACTS_URL", "SECRET_KEY", "POLICY", "PRICES")
    told = [
        {name: process.environment.get(PREFIX + name) for name in shared}
        for process in processes(rendered)
        if process.component != "migration"
    ]
    assert all(one == told[0] for one in told)
    assert all(told[0][name] for name in shared[:4])


def test_what_a_process_writes_is_on_a_volume(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    for process in processes(rendered):
        settings = settings_of(process, monkeypatch)
        mounts = {Path(mount["mountPath"]) for mount in process.container["volumeMounts"]}
        places = [settings.home, Path(process.environment["HOME"]), Path("/tmp")]
        if process.component != "migration" and settings.artifacts.startswith("/"):
            places.append(Path(settings.artifacts))
        if process.component == "api":
            places.append(settings.uploads_dir)
        for place in places:
            assert {place, *place.parents} & mounts, (process.component, place)
        # Fanfold makes its home private, which only the owner of a folder can: the mounted folder itself is the node's.
        assert settings.home not in mounts


def test_several_apis_share_their_uploads(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> None:
    api = next(process for process in processes(rendered) if process.component == "api")
    values = rendered.values.get("api", {})
    if values.get("replicas", 1) > 1 or values.get("autoscaling", {}).get("enabled"):
        mounted = {mount["mountPath"]: mount["name"] for mount in api.container["volumeMounts"]}
        volume = mounted[str(settings_of(api, monkeypatch).uploads_dir)]
        assert "persistentVolumeClaim" in next(one for one in api.workload.spec["volumes"] if one["name"] == volume)


def test_ports_are_those_that_processes_listen_on(rendered: Rendered) -> None:
    for process in processes(rendered):
        ports = process.container.get("ports", [])
        if process.component == "api":
            asked = process.container["args"]
            assert ports == [{"name": "http", "containerPort": int(asked[asked.index("--port") + 1])}]
            assert ports[0]["containerPort"] == DEFAULT_PORT
        elif process.component != "migration":
            told = process.environment["FANFOLD_METRICS_ADDR"].rpartition(":")[2]
            assert ports == [{"name": "metrics", "containerPort": int(told)}]


def test_probes_ask_for_routes_that_are_there(rendered: Rendered) -> None:
    routes = {getattr(route, "path", "") for route in health.router.routes}
    asked = [
        probe["httpGet"]["path"]
        for process in processes(rendered)
        for name, probe in process.container.items()
        if name.endswith("Probe") and "httpGet" in probe
    ]
    asked += [endpoint["path"] for monitor in rendered.of("ServiceMonitor") for endpoint in monitor["spec"]["endpoints"]]
    tests = [workload.containers[0]["args"][-1] for workload in rendered.workloads if workload.component == "test"]
    asked += ["/" + url.rpartition("/")[2] for url in tests]
    assert {"/healthz", "/readyz"} <= set(asked) <= routes


def test_workers_take_runs_from_every_queue_that_the_policy_knows(rendered: Rendered, tmp_path: Path) -> None:
    files = next((one["data"] for one in rendered.of("ConfigMap") if one["metadata"]["name"].endswith("-files")), {})
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    policy = load_policy(tmp_path / "policy.yaml") if "policy.yaml" in files else Policy()
    if "prices.yaml" in files:
        assert load_prices(tmp_path / "prices.yaml") is not None
    served: set[str] = set()
    for process in processes(rendered):
        if process.component == "worker":
            asked = process.container["args"]
            served.update(queue_names(asked[asked.index("--queues") + 1]))
    assert served == set(policy.queues)
    assert QUEUE in served


def test_providers_keep_the_order_in_which_they_are_preferred(tmp_path: Path) -> None:
    values = values_of(CHART / "ci" / "every-value.yaml")
    values["policy"] = {"providers": {"docker": {}, "modal": {"max_running": 1}}}
    values["sandboxes"] |= {"providers": ["modal", "docker", "daytona"], "default": "auto"}
    values["workers"] = {"default": {}}
    rendered = render(values)
    [files] = [one["data"] for one in rendered.of("ConfigMap") if one["metadata"]["name"].endswith("-files")]
    (tmp_path / "policy.yaml").write_text(files["policy.yaml"])
    policy = load_policy(tmp_path / "policy.yaml")
    assert policy.candidates(["auto"]) == ("modal", "docker")
    assert policy.rule("modal").max_running == 1


@pytest.mark.parametrize(("default", "provider"), [("", "docker"), ("daytona", "daytona")])
def test_tasks_that_name_no_provider_get_one_that_pods_reach(
    default: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = values_of(CHART / "ci" / "every-value.yaml")
    values["sandboxes"]["default"] = default
    for process in processes(render(values)):
        if process.component != "migration":
            assert settings_of(process, monkeypatch).provider == provider


def test_files_that_variables_name_are_mounted(rendered: Rendered) -> None:
    for process in processes(rendered):
        for variable in ("FANFOLD_POLICY", "FANFOLD_PRICES"):
            if path := process.environment.get(variable):
                folder, _, name = path.rpartition("/")
                mount = next(one for one in process.container["volumeMounts"] if one["mountPath"] == folder)
                volume = next(one for one in process.workload.spec["volumes"] if one["name"] == mount["name"])
                assert name in rendered.get("ConfigMap", volume["configMap"]["name"])["data"]


def test_pods_have_the_time_that_processes_take_to_end(rendered: Rendered) -> None:
    # What runs at once when a worker is told to stop: its runs are handed over, then its loop is ended, which may take as long
    # again; the controller that it brings, and its threads.
    needed = {
        "worker": 2 * RUN_STOP + CONTROLLER_STOP + 2 * HEARTBEAT,
        "controller": END_SECONDS,
        "api": GRACE + 5,
        "migration": 0,
    }
    for process in processes(rendered):
        sleeps = process.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        given = process.workload.spec.get("terminationGracePeriodSeconds", 30)
        assert given - sleeps > needed[process.component], process.component


def test_who_reaches_sandboxes_has_the_keys_of_their_platforms_and_nobody_else(rendered: Rendered) -> None:
    wanted = {
        "modal": {"MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"}, "daytona": {"DAYTONA_API_KEY"}, "docker": {"DOCKER_HOST"},
    }  # fmt: skip
    every = set().union(*wanted.values())
    chosen = set().union(*(wanted[name] for name in rendered.values["sandboxes"].get("providers", [])))
    reaching = {"worker", "controller", *(["api"] if rendered.values.get("api", {}).get("sandboxAccess") else [])}
    for process in processes(rendered):
        there = {name for name in process.environment if name in every}
        assert there == (chosen if process.component in reaching else set()), process.component


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("modal", ["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "MODAL_ENVIRONMENT"]),
        ("daytona", ["DAYTONA_API_KEY", "DAYTONA_API_URL", "DAYTONA_TARGET"]),
        ("docker", ["DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"]),
    ],
)
def test_variables_of_platforms_are_those_that_their_packages_read(package: str, names: list[str]) -> None:
    text = "\n".join(file.read_text(errors="replace") for file in sorted((SITE / package).rglob("*.py")))
    template = (CHART / "templates" / "_environment.tpl").read_text()
    for name in names:
        assert name in template
        assert name in text or name.partition("_")[2].lower() in text, name


def test_only_workers_have_the_keys_of_models(rendered: Rendered) -> None:
    secret = rendered.values.get("models", {}).get("existingSecret")
    for process in processes(rendered):
        sources = [source["secretRef"]["name"] for source in process.container.get("envFrom", []) if "secretRef" in source]
        assert sources == ([secret] if secret and process.component == "worker" else [])
    assert "ANTHROPIC_API_KEY" in MODEL_KEYS["anthropic"], "the schema gives it as an example"


def test_the_key_that_the_chart_makes_is_one() -> None:
    rendered = render(values_of(CHART / "ci" / "trial.yaml"))
    secret = next(one for one in rendered.of("Secret") if one["metadata"]["name"].endswith("-secret-key"))
    assert len(keys_of(base64.b64decode(secret["data"]["secret-key"]).decode())) == 1


def test_the_schema_of_the_policy_has_the_fields_of_the_policy() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    _same(schema["properties"]["policy"], Policy.model_json_schema(), Policy.model_json_schema()["$defs"])


def _same(ours: Document, theirs: Document, definitions: dict[str, Any]) -> None:
    theirs = definitions[theirs["$ref"].rpartition("/")[2]] if "$ref" in theirs else theirs
    assert set(ours.get("properties", ())) == set(theirs.get("properties", ()))
    for name, part in ours.get("properties", {}).items():
        _same(part, theirs["properties"][name], definitions)
    for inner in ("items", "additionalProperties"):
        if ours.get(inner):
            _same(ours[inner], theirs[inner], definitions)


def test_the_version_is_that_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project
