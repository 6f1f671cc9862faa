"""What a process and the record count, as Prometheus reads it; and that the documentation tells all of it."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from orchestrator.errors import BadInput
from orchestrator.runs.models import ModelUsage
from orchestrator.runs.store import Store
from orchestrator.telemetry.collector import RecordCollector
from orchestrator.telemetry.metrics import MAX_VALUES, Metrics
from orchestrator.telemetry.process import served
from tests.scraping import read


def test_what_happens_is_counted() -> None:
    metrics = Metrics()
    metrics.run_started(0.2)
    metrics.run_finished("success", 12)
    metrics.lease_lost()
    metrics.sandbox_reaped("docker")
    with metrics.sandbox_starting("local"):
        pass
    metrics.happened("tool.result", {"name": "ls", "status": "success"})
    metrics.happened("tool.result", {"name": "ls", "status": "error"})
    metrics.happened("tool.call", {"name": "ls"})
    metrics.models_used("acme", [ModelUsage(1, "", "openai:gpt", 2, 10, 5, 4, 0, 2_500_000)])
    metrics.request_answered("GET", "/v1/runs/{run_id}", 200, 0.004)

    found = read(metrics.render())
    assert found["fanfold_run_start_latency_seconds_count", ()] == 1
    assert found["fanfold_run_duration_seconds_sum", ("success",)] == 12
    assert found["fanfold_lease_losses_total", ()] == 1
    assert found["fanfold_sandboxes_reaped_total", ("docker",)] == 1
    assert found["fanfold_sandbox_start_seconds_count", ("local",)] == 1
    assert found["fanfold_tool_calls_total", ("success", "ls")] == found["fanfold_tool_calls_total", ("error", "ls")] == 1
    assert found["fanfold_model_calls_total", ("openai:gpt",)] == 2
    assert found["fanfold_model_tokens_total", ("input", "openai:gpt", "acme")] == 10
    assert found["fanfold_model_tokens_total", ("cache_read", "openai:gpt", "acme")] == 4
    assert found["fanfold_model_cost_usd_total", ("openai:gpt", "acme")] == 2.5
    assert found["fanfold_http_request_duration_seconds_count", ("GET", "/v1/runs/{run_id}", "200")] == 1


def test_names_from_outside_do_not_fill_the_memory() -> None:
    metrics = Metrics()
    for number in range(MAX_VALUES + 50):
        metrics.happened("tool.result", {"name": f"invented-{number}", "status": "success"})
    tools = {labels[1]: value for (name, labels), value in read(metrics.render()).items() if name == "fanfold_tool_calls_total"}
    assert len(tools) == MAX_VALUES + 1
    assert tools["other"] == 50


def test_a_sandbox_that_could_not_be_made_counts_as_a_failure_alone() -> None:
    metrics = Metrics()
    with pytest.raises(OSError, match="disk"), metrics.sandbox_starting("local"):
        raise OSError("disk")
    found = read(metrics.render())
    assert ("fanfold_sandbox_start_seconds_count", ("local",)) not in found
    assert found["fanfold_sandbox_failures_total", ("local",)] == 1


def test_a_sandbox_that_is_called_off_is_no_failure_of_its_provider() -> None:
    metrics = Metrics()
    with pytest.raises(asyncio.CancelledError), metrics.sandbox_starting("local"):
        raise asyncio.CancelledError
    assert ("fanfold_sandbox_failures_total", ("local",)) not in read(metrics.render())


def test_two_processes_in_one_do_not_know_each_other() -> None:
    first, second = Metrics(), Metrics()
    first.lease_lost()
    assert read(second.render())["fanfold_lease_losses_total", ()] == 0


def test_metrics_are_served_until_they_are_not() -> None:
    metrics = Metrics()
    metrics.lease_lost()
    with served(metrics, "127.0.0.1:0") as url, urllib.request.urlopen(url, timeout=10) as answer:
        assert read(answer.read())["fanfold_lease_losses_total", ()] == 1
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=10)


def test_an_address_that_cannot_be_had_is_told() -> None:
    with (
        pytest.raises(BadInput, match=r"FANFOLD_METRICS_ADDR: metrics cannot be served at 203\.0\.113\.1:9: "),
        served(Metrics(), "203.0.113.1:9"),
    ):
        pass


@pytest.fixture
def complete(store: Store) -> Metrics:
    """What the API, the controller and a worker show, together."""
    metrics = Metrics()
    metrics.add(RecordCollector(lambda: store.engine))
    return metrics


DOCUMENT = Path(__file__).parents[4] / "docs" / "observability.md"


def test_the_documentation_names_every_metric_and_no_other(complete: Metrics) -> None:
    there = {family.name: family for family in families(complete.render().decode()) if not family.name.endswith("_created")}
    told = re.findall(r"^\| `(fanfold_\w+)` \| (\w+) \|[^|]*\|", DOCUMENT.read_text(), re.MULTILINE)
    assert {name for name, _ in told} == {name + ("_total" if f.type == "counter" else "") for name, f in there.items()}
    for name, kind in told:
        assert there[name.removesuffix("_total") if kind == "counter" else name].type == kind


def test_names_and_help_are_as_prometheus_wants_them(complete: Metrics) -> None:
    for family in families(complete.render().decode()):
        assert re.fullmatch(r"fanfold_[a-z0-9]+(_[a-z0-9]+)*", family.name)
        assert family.documentation.endswith(".")
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
