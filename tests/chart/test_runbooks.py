"""docs/runbooks.md: a section for each alert, which says all that is needed, in commands and queries that there are.

Its shell commands are run by tests/acceptance/test_docs.py, and Prometheus takes its queries in
tests/integration/orchestrator/test_dashboards.py.
"""

from __future__ import annotations

import re
import shlex

import pytest

from tests.acceptance.pages import ROOT, blocks
from tests.chart.test_dashboards import labels_of_recorded
from tests.chart.test_page import RELEASE, release
from tests.chart.test_rules import PROMETHEUS_LABELS, documented, rules

PAGE = ROOT / "docs" / "runbooks.md"
PARTS = ["Means", "Users see", "Look", "Do", "Over when"]
KUBECTL = {"get": [], "logs": ["--tail"], "describe": [], "scale": ["--replicas"]}
"""What is called, with which options."""

SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}


def test_each_alert_has_a_section_and_leads_to_it() -> None:
    assert list(SECTIONS) == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_says_all_that_is_needed(name: str) -> None:
    assert re.findall(r"^\*\*([\w ]+)\*\*", SECTIONS[name], re.MULTILINE) == PARTS
    assert "```promql\n" in SECTIONS[name]


def test_queries_name_what_there_is() -> None:
    known = documented() | labels_of_recorded() | {"up": set()}
    for query in (line for _, text in blocks(PAGE, "promql") for line in text.splitlines()):
        names = re.findall(r"\bfanfold[:_][\w:]+|\bup\b", query)
        labels = set().union(*(known[name] for name in names)) | PROMETHEUS_LABELS
        by = {label for found in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", found)}
        matched = set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
        assert names, query
        assert by | matched <= labels, query


def test_what_kubectl_is_asked_about_is_there() -> None:
    deployments = release("chart-values.yaml").names("Deployment")
    typed = [shlex.split(line) for _, text in blocks(PAGE, "kubectl") for line in text.splitlines()]
    assert typed
    for words in typed:
        assert words[:3] == ["kubectl", "--namespace", RELEASE]
        named = [word.removeprefix("deploy/") for word in words if word.startswith("deploy/")]
        assert set(named) <= deployments, words
        assert named or words[3:] == ["get", "pods"]
        assert {word for word in words[4:] if word.startswith("--")} <= set(KUBECTL[words[3]]), words
