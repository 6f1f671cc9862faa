"""What a real worker and a real API tell of a run: their metrics, and the worker's log."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest

from orchestrator.runs.models import Run
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from tests.scraping import Samples, read
from tests.served import serving

SCRIPT = """
turns:
  - tool_calls: [{id: a, name: ls, args: {path: .}}]
    usage: {input_tokens: 1000, output_tokens: 100}
  - {text: done}
"""


@pytest.fixture(scope="module")
def address() -> str:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.fixture(scope="module")
def settings(new_home, address: str) -> Iterator[Settings]:
    with new_home(METRICS_ADDR=address) as made:
        yield made


@pytest.fixture(scope="module")
def run(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Run:
    base = tmp_path_factory.mktemp("task")
    (base / "script.yaml").write_text(SCRIPT)
    task = {"agent": {"model": "scripted:script.yaml", "prompt": "Look."}}
    made = service.submit(RunSpec.model_validate(task), base_dir=base)
    service.ensure_worker()
    list(service.follow(made.id))
    return service.get(made.id)


def scraped(url: str, key: str = "") -> Samples:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return read(httpx.get(url, headers=headers, trust_env=False).raise_for_status().content)


def named(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    return {labels: value for (one, labels), value in samples.items() if one == name}


def test_the_worker_tells_what_it_did(run: Run, address: str, until: Callable[..., None]) -> None:
    url = f"http://{address}/metrics"
    until(lambda: named(scraped(url), "fanfold_run_duration_seconds_count") == {("success",): 1}, "the run has been counted")
    found = scraped(url)
    assert named(found, "fanfold_run_start_latency_seconds_count") == {(): 1}
    assert named(found, "fanfold_sandbox_start_seconds_count") == {("local",): 1}
    assert named(found, "fanfold_tool_calls_total") == {("success", "ls"): 1}
    assert list(named(found, "fanfold_model_calls_total").values()) == [2]
    tokens = named(found, "fanfold_model_tokens_total")
    assert {labels[0]: value for labels, value in tokens.items() if value} == {"input": 1000, "output": 100}


def test_the_api_tells_what_is_in_the_record(service: Service, run: Run) -> None:
    with serving(service) as api:
        api.client().get(f"/v1/runs/{run.id}")
        found = scraped(f"{api.url}/metrics", api.key)
    assert found["fanfold_record_up", ()] == 1
    assert found["fanfold_runs", ("success",)] == 1
    assert found["fanfold_workers", ()] == 1
    assert sum(named(found, "fanfold_day_tokens").values()) == 1100
    assert found["fanfold_http_request_duration_seconds_count", ("GET", "/v1/runs/{run_id}", "200")] == 1


def test_each_line_of_the_workers_log_is_json_and_names_its_run(settings: Settings, run: Run) -> None:
    lines = [json.loads(line) for line in settings.worker_log.read_text().splitlines()]
    mine = [line for line in lines if line.get("run") == run.id]
    assert {(line["attempt"], line["tenant"]) for line in mine} == {(1, "default")}
    assert any("begins" in line["event"] for line in mine)
    assert {line["logger"].split(".")[0] for line in lines} >= {"orchestrator", "celery"}
