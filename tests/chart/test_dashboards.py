"""Grafana's dashboards: as Grafana's model says, readable, and asking only for what there is."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.charts import CHART, ROOT, render, values_of
from tests.chart.test_rules import PROMETHEUS_LABELS, documented, rules
from tests.conftest import missing

DASHBOARDS = sorted((ROOT / "infra" / "grafana" / "dashboards").glob("*.json"))
PROVISIONING = ROOT / "infra" / "grafana" / "provisioning"
SECONDS = 60
WIDTH = 24
"""Columns of Grafana's grid."""

Dashboard = dict[str, Any]
each = pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)


def load(file: Path) -> Dashboard:
    found: Dashboard = json.loads(file.read_text())
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Each query, and where it is."""
    for file in DASHBOARDS:
        for panel in load(file)["panels"]:
            for target in panel["targets"]:
                yield f"{file.stem}: {panel['title']}", target["expr"]


def test_there_is_one_for_each_thing_that_an_operator_asks_about() -> None:
    assert {file.stem for file in DASHBOARDS} == {"queue", "runs", "providers", "cost"}


def test_they_are_as_the_script_writes_them() -> None:
    command = [sys.executable, ROOT / "scripts" / "dashboards.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def understood(given: Dashboard) -> Dashboard:
    """What Grafana's own model, of which the SDK is made, takes of a dashboard."""
    try:
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard as Model
    except ImportError:
        missing("grafana-foundation-sdk is not installed.")
    register_default_plugins()
    found: Dashboard = json.loads(JSONEncoder().encode(Model.from_json(given)))
    return found


@each
def test_grafanas_own_model_knows_all_that_is_in_one(file: Path) -> None:
    given = load(file)
    assert lost(given, understood(given)) == []


def test_what_grafana_does_not_know_would_be_seen() -> None:
    given = load(DASHBOARDS[0])
    given["panels"][0]["options"]["invented"] = given["panels"][0]["gridPos"]["invented"] = True
    assert lost(given, understood(given)) == ["/panels/0/gridPos/invented", "/panels/0/options/invented"]


@each
def test_units_are_ones_of_grafana(file: Path) -> None:
    understood(load(file))
    from grafana_foundation_sdk.models import units

    known = {value for value in vars(units).values() if isinstance(value, str)}
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in load(file)["panels"]} <= known


def lost(given: Any, understood: Any, path: str = "") -> list[str]:
    """What was given and is not, or not so, in what was understood of it."""
    if isinstance(given, dict) and isinstance(understood, dict):
        return [one for key, value in given.items() for one in lost(value, understood.get(key), f"{path}/{key}")]
    if isinstance(given, list) and isinstance(understood, list) and len(given) <= len(understood):
        return [one for number, value in enumerate(given) for one in lost(value, understood[number], f"{path}/{number}")]
    return [] if given == understood else [path]


@each
def test_panels_lie_beside_each_other_and_say_what_they_show(file: Path) -> None:
    found = load(file)
    assert (found["uid"], found["title"]) == (f"fanfold-{file.stem}", f"Fanfold / {file.stem.title()}")
    assert [panel["id"] for panel in found["panels"]] == list(range(1, len(found["panels"]) + 1))
    titles = [panel["title"] for panel in found["panels"]]
    assert len(set(titles)) == len(titles)
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        assert panel["title"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        cells = set(itertools.product(range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])))
        assert not cells & taken, f"{panel['title']} lies over another one"
        assert max(x for x, _ in cells) < WIDTH
        taken |= cells


@each
def test_all_panels_ask_the_prometheus_that_is_chosen(file: Path) -> None:
    found = load(file)
    assert [(one["name"], one["type"], one["query"]) for one in found["templating"]["list"]] == [
        ("datasource", "datasource", "prometheus")
    ]
    for panel in found["panels"]:
        for one in (panel, *panel["targets"]):
            assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def labels_of_recorded() -> dict[str, set[str]]:
    """The labels of what the rules record: those by which they add up at last."""
    found = {}
    for rule in rules():
        if "record" in rule:
            by = re.search(r"by \(([^)]*)\)", rule["expr"]) if not rule["expr"].startswith("sum(max") else None
            found[rule["record"]] = set(re.split(r",\s*", by[1])) - {"le"} if by else set()
    return found


def test_they_name_only_metrics_and_labels_that_there_are() -> None:
    known = documented() | labels_of_recorded()
    for where, query in queries():
        names = re.findall(r"\bfanfold[:_][\w:]+", query)
        assert names, where
        labels = set().union(*(known[name] for name in names)) | PROMETHEUS_LABELS
        by = {label for found in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", found)}
        matched = set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
        assert by | matched <= labels, where


def test_a_legend_names_labels_that_its_query_leaves() -> None:
    known = documented() | labels_of_recorded()
    for file in DASHBOARDS:
        for panel in load(file)["panels"]:
            for target in panel["targets"]:
                by = re.findall(r"by \(([^)]*)\)", target["expr"])
                name = re.findall(r"\bfanfold[:_][\w:]+", target["expr"])[0]
                left = set(re.split(r",\s*", by[0])) if by else known[name] | {"instance"}
                assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= left, panel["title"]


def test_grafana_finds_them_where_it_is_told_to() -> None:
    (source,) = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (provider,) = yaml.safe_load((PROVISIONING / "dashboards" / "fanfold.yaml").read_text())["providers"]
    assert (provider["type"], provider["options"]) == ("file", {"path": "/var/lib/grafana/dashboards"})


def test_the_chart_has_each_in_a_config_map_that_a_sidecar_finds() -> None:
    rendered = render(values_of(CHART / "ci" / "production.yaml"))
    maps = [one for one in rendered.of("ConfigMap") if "grafana_dashboard" in one["metadata"].get("labels", {})]
    assert {name: json.loads(text) for one in maps for name, text in one["data"].items()} == {
        file.name: load(file) for file in DASHBOARDS
    }
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in maps} == {"1"}
