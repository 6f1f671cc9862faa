"""Every query of the dashboards is answered by Prometheus, with our rules, over runs of a real worker and a real API."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from tests.acceptance.pages import blocks
from tests.conftest import missing
from tests.served import Api, serving
from tests.services import free_port

ROOT = Path(__file__).parents[3]
DASHBOARDS = sorted((ROOT / "infra" / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((ROOT / "infra" / "prometheus").glob("*.yaml"))
OFTEN = "250ms"
"""How often Prometheus looks, and evaluates rules; in an installation it is every 15 or 30 seconds."""
SILENT = {"providers: Sandboxes without a run, in an hour"}
"""What has no answer in these runs: nothing is lost."""
SCRIPT = """
turns:
  - tool_calls: [{id: a, name: ls, args: {path: .}}, {id: b, name: read_file, args: {file_path: /not/there}}]
    usage: {input_tokens: 1000, output_tokens: 100}
  - {text: done}
"""
PRICES = """models: {"*": {input: 3, output: 15}}\n"""
POLICY = """routes: [{label: "where=nowhere", queue: nowhere}]\n"""
NO_ENGINE = "tcp://127.0.0.1:9"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, text in {"script.yaml": SCRIPT, "prices.yaml": PRICES, "policy.yaml": POLICY}.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def settings(new_home, files: Path) -> Iterator[Settings]:
    variables = {"PRICES": str(files / "prices.yaml"), "POLICY": str(files / "policy.yaml"), "METRICS_PUBLIC": "true"}
    with pytest.MonkeyPatch.context() as patch, new_home(METRICS_ADDR=f"127.0.0.1:{free_port()}", **variables) as made:
        patch.setenv("DOCKER_HOST", NO_ENGINE)
        yield made


@pytest.fixture(scope="module")
def prometheus(service: Service, tmp_path_factory: pytest.TempPathFactory, files: Path, until) -> Iterator[str]:
    """Prometheus' address, while one of each kind of run is there: ended, failed, at work, waiting."""
    with serving(service) as api, _prometheus(api, service.settings, tmp_path_factory.mktemp("prometheus")) as url:
        service.ensure_worker()
        until(lambda: _up(url) == {"1"}, "Prometheus scrapes the API and the worker")
        ids = [service.submit(RunSpec.model_validate(task), base_dir=files).id for task in _tasks()]
        until(lambda: all(service.get(one).status.terminal for one in ids[:2]), "the first two runs have ended")
        until(lambda: service.get(ids[2]).sandbox, "the third has its sandbox")
        assert api.client().get("/v1/runs").is_success
        try:
            yield url
        finally:
            for one in ids[2:]:
                service.cancel(one)
            until(lambda: all(service.get(one).status.terminal for one in ids), "the others have ended")


def _tasks() -> list[dict[str, object]]:
    local = {"sandbox": {"provider": "local"}}
    return [
        {"agent": {"model": "scripted:script.yaml", "prompt": "Look."}, **local},
        {"command": "true", "sandbox": {"provider": "docker"}},
        {"command": "sleep 300", **local},
        {"command": "true", "labels": {"where": "nowhere"}, **local},
    ]


@contextmanager
def _prometheus(api: Api, settings: Settings, folder: Path) -> Iterator[str]:
    if shutil.which("prometheus") is None:
        missing("There is no prometheus.")
    for file in RULES:
        groups = [{**group, "interval": OFTEN} for group in yaml.safe_load(file.read_text())["groups"]]
        (folder / file.name).write_text(yaml.safe_dump({"groups": groups}))
    targets = [api.url.removeprefix("http://"), settings.metrics_addr]
    config = {
        "global": {"scrape_interval": OFTEN, "evaluation_interval": OFTEN, "scrape_timeout": OFTEN},
        "rule_files": [str(folder / file.name) for file in RULES],
        "scrape_configs": [{"job_name": "fanfold", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    options = ["--config.file", folder / "prometheus.yml", "--storage.tsdb.path", folder / "data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["prometheus", *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
        assert "level=error" not in (folder / "log").read_text()


def _asked(url: str, query: str) -> list[dict[str, object]]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query}, trust_env=False, timeout=30)
    assert answer.is_success, f"{query}: {answer.text}"
    found: list[dict[str, object]] = answer.json()["data"]["result"]
    return found


def _up(url: str) -> set[str]:
    try:
        found = _asked(url, "up")
    except httpx.TransportError:
        return set()
    return {str(one["value"][1]) for one in found} if len(found) == 2 else set()  # type: ignore[index]


def panels() -> dict[str, list[dict[str, str]]]:
    found = [(file.stem, panel) for file in DASHBOARDS for panel in json.loads(file.read_text())["panels"]]
    return {f"{name}: {panel['title']}": panel["targets"] for name, panel in found}


def test_each_panel_has_something_to_show(prometheus: str, until: Callable[..., None]) -> None:
    left = {(title, target["expr"]) for title, targets in panels().items() for target in targets if title not in SILENT}

    def all_answered() -> bool:
        left.difference_update([one for one in left if _asked(prometheus, one[1])])
        return not left

    try:
        until(all_answered, "each query has a result")
    except AssertionError as exc:
        raise AssertionError(f"nothing to show: {sorted(left)}") from exc


def test_queries_of_the_run_books_are_ones(prometheus: str) -> None:
    asked = [line for _, text in blocks(ROOT / "docs" / "runbooks.md", "promql") for line in text.splitlines()]
    assert len(asked) > 10
    for query in asked:
        _asked(prometheus, query)


def test_what_is_silent_here_is_no_error(prometheus: str) -> None:
    for title in SILENT:
        for target in panels()[title]:
            assert _asked(prometheus, target["expr"]) == []


def shown(url: str, query: str) -> list[float]:
    return [float(one["value"][1]) for one in _asked(url, query)]  # type: ignore[index]


@pytest.mark.parametrize(
    ("title", "value"),
    [
        ("queue: Runs that wait", 1),
        ("queue: Workers alive", 1),
        ("queue: Runs that wait, by queue", 1),
        ("providers: Sandboxes", 1),
        ("providers: Sandboxes, by provider", 1),
        ("cost: Tokens of a day", 1100),
        ("cost: Cost of a day", 0.0045),
    ],
)
def test_what_is_shown_is_so(prometheus: str, title: str, value: float, until: Callable[..., None]) -> None:
    [target] = panels()[title]
    until(lambda: shown(prometheus, target["expr"]) == [value], title)
