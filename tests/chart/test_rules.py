"""Prometheus' rules: promtool accepts them, each alert has been heard, and what they ask for is what the code exports."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.runs.schema import open_database
from orchestrator.telemetry.collector import RecordCollector
from orchestrator.telemetry.metrics import Metrics
from tests.chart.charts import CHART, render, values_of
from tests.conftest import missing

ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "infra" / "prometheus").glob("*.yaml"))
RULE_TESTS = sorted((ROOT / "infra" / "prometheus" / "tests").glob("*_test.yaml"))
SECONDS = 60
PROMETHEUS_LABELS = {"le", "instance", "alertname", "alertstate"}


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("promtool") is None:
        missing("There is no promtool.")
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


def rules() -> Iterator[dict[str, Any]]:
    for file in RULES:
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from group["rules"]


@cache
def documented() -> dict[str, set[str]]:
    """The metrics of docs/observability.md with their labels; a test of the metrics sees that the page is right."""
    rows = re.findall(r"^\| `(fanfold_\w+)` \| (\w+) \|([^|]*)\|", (ROOT / "docs/observability.md").read_text(), re.MULTILINE)
    found: dict[str, set[str]] = {}
    for name, kind, labels in rows:
        for suffix in ("_bucket", "_count", "_sum") if kind == "histogram" else ("",):
            found[name + suffix] = set(labels.replace(",", " ").split())
    return found


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", *RULES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", RULE_TESTS, ids=lambda file: file.stem)
def test_the_alerts_are_heard_when_they_should_be(file: Path) -> None:
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_been_heard_and_says_what_to_do() -> None:
    heard = "\n".join(file.read_text() for file in RULE_TESTS)
    alerts = [rule for rule in rules() if "alert" in rule]
    assert alerts
    for rule in alerts:
        fired = rf'exp_samples: \[\{{labels: .ALERTS\{{alertname="{rule["alert"]}"'
        assert re.search(fired, heard), f"no test hears {rule['alert']}"
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}


def test_what_the_rules_ask_for_is_exported(tmp_path: Path) -> None:
    metrics = Metrics()
    engine = open_database(f"sqlite:///{tmp_path}/record.db", tmp_path / "lock")
    metrics.add(RecordCollector(lambda: engine))
    exported = {name for family in metrics.registry.collect() for name in _names(family.name, family.type)}
    engine.dispose()
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for rule in rules():
        text = re.sub(r'"[^"]*"', '""', rule["expr"])
        assert set(re.findall(r"\bfanfold_\w+", text)) <= exported, rule
        assert set(re.findall(r"\bfanfold:\w+:\w+", text)) <= recorded, rule


def test_keda_asks_for_the_queues_of_the_workers_that_it_scales() -> None:
    scaled = {"type": "keda", "keda": {"serverAddress": "http://prometheus:9090"}}
    workers = {"default": {}, "ml": {"queues": ["ml", "ml.large"]}, "own": {"queues": ["own"]}}
    values = values_of(CHART / "ci" / "minimal.yaml") | {"workers": workers, "workerDefaults": {"autoscaling": scaled}}
    values["workers"]["own"]["autoscaling"] = {"keda": {"query": "vector(1)"}}
    asked = {
        one["metadata"]["name"].rpartition("-")[2]: one["spec"]["triggers"][0]["metadata"]["query"]
        for one in render(values).of("ScaledObject")
    }
    assert asked == {
        "default": 'max(fanfold_queue_age_seconds{queue=~"fanfold"})',
        "ml": 'max(fanfold_queue_age_seconds{queue=~"ml|ml\\\\.large"})',
        "own": "vector(1)",
    }
    assert "queue" in documented()["fanfold_queue_age_seconds"]


def _names(name: str, kind: str) -> set[str]:
    if kind == "histogram":
        return {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
    return {f"{name}_total"} if kind == "counter" else {name}


def test_rules_name_only_labels_that_their_metrics_have() -> None:
    for rule in rules():
        asked = set(re.findall(r"\bfanfold_\w+", rule["expr"]))
        known = set().union(*(documented()[name] for name in asked)) | PROMETHEUS_LABELS if asked else None
        by = {name for names in re.findall(r"by \(([^)]*)\)", rule["expr"]) for name in re.split(r",\s*", names)}
        matched = set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)\s*\"", rule["expr"]))
        assert known is None or by | matched <= known, rule
