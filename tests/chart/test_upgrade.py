"""An upgrade from any earlier version of the chart is one that Kubernetes takes, and it loses nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from tests.chart.charts import CHART, Rendered, render, values_of
from tests.chart.releases import FOLDER, complaints, noted, version

RELEASES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
def test_what_cannot_be_changed_is_as_it_was(release: Path) -> None:
    before = json.loads(release.read_text())
    assert before
    for case, objects in before.items():
        file = CHART / "ci" / f"{case}.yaml"
        assert file.exists(), f"{file.name} is a user's values: an upgrade with them has to be tried"
        assert complaints(objects, noted(render(values_of(file), upgrade=True))) == [], case


def test_this_version_is_noted() -> None:
    """Otherwise the next one could not be held against it: `python -m tests.chart.releases`."""
    assert version() in {path.stem for path in RELEASES}


def test_an_upgrade_that_would_be_refused_is_seen() -> None:
    trial = render(values_of(CHART / "ci" / "trial.yaml"))
    before = copy.deepcopy(noted(trial))
    trial.get("Deployment", "demo-fanfold-api")["spec"]["selector"]["matchLabels"]["more"] = "x"
    server = trial.get("StatefulSet", "demo-fanfold-postgresql")
    server["spec"]["serviceName"] = "other"
    trial.documents.remove(trial.get("PersistentVolumeClaim", "demo-fanfold-artifacts"))
    trial.documents.remove(trial.get("Deployment", "demo-fanfold-controller"))
    assert sorted(complaints(before, noted(trial))) == [
        "Deployment/demo-fanfold-api: selector cannot be changed",
        "PersistentVolumeClaim/demo-fanfold-artifacts is not made any more",
        "StatefulSet/demo-fanfold-postgresql: serviceName cannot be changed",
    ]


def test_names_and_selectors_do_not_depend_on_the_version(rendered: Rendered) -> None:
    for document in rendered.of("Deployment", "StatefulSet", "Service", "PodDisruptionBudget"):
        text = json.dumps(document["spec"].get("selector"))
        assert "helm.sh/chart" not in text
        assert "app.kubernetes.io/version" not in text
        assert version() not in document["metadata"]["name"]


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("fanfold", "fanfold-api"),
        ("fanfold-staging", "fanfold-staging-api"),
        ("demo", "demo-fanfold-api"),
        ("a" * 53, "a" * 40 + "-api"),
    ],
)
def test_names_follow_the_release_and_are_never_too_long(release: str, name: str) -> None:
    rendered = render(values_of(CHART / "ci" / "every-value.yaml") | {"nameOverride": ""}, name=release)
    assert name in rendered.names("Deployment")
    for document in rendered.documents:
        assert len(document["metadata"]["name"]) <= 63
