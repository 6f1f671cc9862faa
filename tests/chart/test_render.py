"""Two engines of Helm take the chart, say the same, and what they say is what three versions of Kubernetes know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.chart.charts import CHART, NAMESPACE, OLDEST, RELEASE, Document, Rendered, notes, render3, run_helm3, sdk, values_of
from tests.chart.crds import CRDS
from tests.conftest import missing

VERSIONS = ("1.31", "1.34", "1.37")
ICON = "icon is recommended"
INFO = 1


def validate(document: Document, version: str) -> None:
    """Raises a validation error."""
    try:
        import kubernetes_validate
    except ImportError:
        missing("kubernetes-validate is not installed.")
    schema = CRDS.get((document["apiVersion"], document["kind"]))
    if schema is None:
        assert kubernetes_validate.validate(document, version, strict=True) == version
    else:
        jsonschema.Draft202012Validator(schema).validate(document)


def test_helm_4_finds_nothing_to_complain_of(case: Path) -> None:
    for version in VERSIONS:
        report = sdk().lint(CHART, values_of(case), strict=True, namespace=NAMESPACE, kube_version=f"v{version}.0")
        assert report["errors"] == []
        assert [one for one in report["messages"] if one["severity"] > INFO or ICON not in one["error"]] == []


def test_helm_3_finds_nothing_to_complain_of(case: Path) -> None:
    done = run_helm3("lint", CHART, "--strict", "-f", case, "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


def test_both_engines_say_the_same(case: Path, rendered: Rendered) -> None:
    assert _by_name(render3(case).documents) == _by_name(rendered.documents)


def _by_name(documents: list[Document]) -> dict[tuple[str, str], Document]:
    """Of Secrets only which keys they have: what is in them is made by chance."""
    found: dict[tuple[str, str], Any] = {}
    for one in documents:
        key = (one["kind"], one["metadata"]["name"])
        assert key not in found, f"there are two of {key}"
        found[key] = {**one, "data": sorted(one["data"])} if one["kind"] == "Secret" else one
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(rendered: Rendered, version: str) -> None:
    for document in rendered.documents:
        validate(document, version)


def test_a_field_that_is_not_known_would_be_seen(rendered: Rendered) -> None:
    for document in [one for one in rendered.documents if "spec" in one]:
        document["spec"]["invented"] = True
        with pytest.raises(jsonschema.ValidationError, match="invented"):
            validate(document, VERSIONS[0])


def test_an_older_kubernetes_is_refused() -> None:
    done = run_helm3("template", RELEASE, CHART, "-f", CHART / "ci" / "minimal.yaml", "--kube-version", "1.30.0")
    assert done.returncode != 0
    assert ">=1.31.0" in done.stderr


def test_it_is_packed_with_its_rules_and_without_what_is_for_tests(tmp_path: Path, case: Path) -> None:
    with sdk().Chart.load(sdk().package(CHART, destination=tmp_path)) as packed:
        names = {file["name"] for file in packed.files}
        assert {"README.md", "files/rules/alerts.yaml"} <= names
        assert not [name for name in names if name.startswith("ci/")]
        packed.render(values_of(case), name=RELEASE)


def test_what_is_told_after_an_installation_names_what_there_is(case: Path, rendered: Rendered) -> None:
    told = notes(values_of(case))
    api = next(one for one in rendered.of("Deployment") if one["metadata"]["labels"]["app.kubernetes.io/component"] == "api")
    assert f"deploy/{api['metadata']['name']} -- fanfold keys create" in told
    assert "<no value>" not in told
    assert "%!" not in told


def test_the_oldest_version_that_is_tested_is_the_oldest_that_the_chart_takes() -> None:
    with sdk().Chart.load(CHART) as chart:
        assert chart.metadata["kubeVersion"] == f">={OLDEST}-0"
        assert OLDEST.startswith(VERSIONS[0])
