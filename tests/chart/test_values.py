"""The values, their schema and the README say the same; what is copied into the chart is as its source."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.charts import CASES, CHART, ROOT, Document, render, values_of

SECONDS = 60


def schema() -> Document:
    found: Document = json.loads((CHART / "values.schema.json").read_text())
    return found


def defaults() -> Document:
    found: Document = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def test_every_value_has_a_default_that_can_be_seen() -> None:
    _alike(schema()["properties"], defaults(), "")


def _alike(properties: Document, values: Document, path: str) -> None:
    named = set(properties) - {"global"} if not path else set(properties)
    assert named == set(values), path
    for name, part in properties.items():
        if part.get("properties") and not (path == "" and name in ("policy", "prices")):
            _alike(part["properties"], values[name], f"{path}{name}.")


def objects(part: Any, path: str = "") -> Iterator[tuple[str, Document]]:
    """Every object schema, by where it is."""
    if isinstance(part, dict):
        if "properties" in part and isinstance(part["properties"], dict) and "type" in part:
            yield path, part
        for name, below in part.items():
            yield from objects(below, f"{path}/{name}")
    elif isinstance(part, list):
        for number, below in enumerate(part):
            yield from objects(below, f"{path}/{number}")


def test_no_object_takes_keys_that_are_not_known_and_every_key_is_described() -> None:
    found = dict(objects(schema()))
    assert len(found) > 50
    for path, part in found.items():
        assert part["additionalProperties"] is False, path
        for name, below in part["properties"].items():
            assert below.get("description", "").endswith("."), f"{path}/{name}"


def test_a_worker_may_say_what_all_workers_may_but_for_what_they_share() -> None:
    all_of_them = schema()["properties"]["workerDefaults"]["properties"]
    one = schema()["definitions"]["worker"]["properties"]
    assert set(all_of_them) - set(one) == {"serviceAccount", "extraEgress"}
    assert {name: all_of_them[name] for name in one} == one


def leaves(values: Document, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def test_the_files_of_values_use_every_value() -> None:
    """What no file uses is rendered by nobody before a user does it."""
    given = [path for case in CASES for path, _ in leaves(values_of(case))]
    given += [("workerDefaults", *path[2:]) for path in given if path[0] == "workers"]
    used = {path[:depth] for path in given for depth in range(1, len(path) + 1)}
    assert {".".join(path) for path, _ in leaves(defaults()) if path not in used} == set()


def test_what_the_chart_has_from_elsewhere_is_fresh() -> None:
    done = chart_script(ROOT, "--check")
    assert done.returncode == 0, done.stderr


def chart_script(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / "scripts" / "chart.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The chart, what it has from elsewhere, and the script, in a place of their own."""
    for folder in ("helm", "infra", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_what_is_stale_is_told_and_mended(copy: Path) -> None:
    chart = copy / "helm" / "fanfold"
    text = (chart / "values.schema.json").read_text()
    (chart / "values.schema.json").write_text(text.replace("The HTTP API.", "The API over HTTP."))
    (copy / "infra" / "prometheus" / "alerts.yaml").write_text("groups: []\n")
    (copy / "infra" / "prometheus" / "recording.yaml").unlink()
    (copy / "infra" / "grafana" / "dashboards" / "runs.json").write_text("{}\n")

    told = chart_script(copy, "--check")
    assert told.returncode == 1
    for name in ("README.md", "files/rules/alerts.yaml", "files/rules/recording.yaml", "files/dashboards/runs.json"):
        assert f"helm/fanfold/{name} is stale" in told.stderr
    assert chart_script(copy).returncode == 0
    assert "The API over HTTP." in (chart / "README.md").read_text()
    assert not (chart / "files" / "rules" / "recording.yaml").exists()
    assert chart_script(copy, "--check").returncode == 0


def test_the_rules_in_the_cluster_are_those_of_infra() -> None:
    rule = render(values_of(CHART / "ci" / "production.yaml")).of("PrometheusRule")[0]
    files = sorted((ROOT / "infra" / "prometheus").glob("*.yaml"))
    assert rule["spec"]["groups"] == [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]


def test_objects_of_the_user_s_own_are_filled_in() -> None:
    rendered = render(values_of(CHART / "ci" / "production.yaml"))
    assert rendered.get("ConfigMap", "more")["metadata"]["labels"] == {"app.kubernetes.io/instance": "demo"}
    assert rendered.get("ConfigMap", "agents-note")["data"] == {"note": "written by hand"}


def test_a_change_of_a_setting_starts_pods_anew_and_nothing_else_does() -> None:
    base = values_of(CHART / "ci" / "minimal.yaml")

    def annotations(**more: Any) -> list[Document]:
        found = [one for one in render({**base, **more}).workloads if one.kind == "Deployment"]
        return [one.template["metadata"]["annotations"] for one in found]

    assert annotations() == annotations(api={"service": {"port": 81}})
    for change in ({"log": {"level": "debug"}}, {"policy": {"fan_out": {"max_depth": 1}}}):
        assert all(one != other for one, other in zip(annotations(), annotations(**change), strict=True))
