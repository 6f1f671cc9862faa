"""docs/kubernetes.md: its values render, and its commands name options, files, objects and keys that are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from orchestrator.cli.app import app
from tests.acceptance.pages import ROOT, blocks, name_of
from tests.chart.charts import CHART, Document, Rendered, render, run_helm3, values_of
from tests.chart.test_references import references

PAGE = ROOT / "docs" / "kubernetes.md"
RELEASE = "fanfold"


def files() -> dict[str, Document]:
    return {name: yaml.safe_load(text) for _, text in blocks(PAGE, "yaml") if (name := name_of(text))}


def commands(language: str) -> list[list[str]]:
    return [shlex.split(line) for _, text in blocks(PAGE, language) for line in text.splitlines() if line.strip()]


def release(name: str) -> Rendered:
    """What the page installs with a file: the values for workers go over those of the section before."""
    values = files()["chart-values.yaml"] | files()[name]
    return render(files()[name] if name == "chart-trial.yaml" else values, name=RELEASE)


def test_the_values_on_the_page_render() -> None:
    assert set(files()) == {"chart-trial.yaml", "chart-values.yaml", "chart-workers.yaml"}
    for name in files():
        assert release(name).of("Deployment")


def test_the_trial_is_the_one_that_is_tested() -> None:
    assert files()["chart-trial.yaml"] == values_of(CHART / "ci" / "trial.yaml")


def test_helm_knows_the_options_and_files_that_are_typed() -> None:
    typed = [words for language in ("helm",) for words in commands(language) if words[0] == "helm"]
    assert {words[1] for words in typed} == {"install", "test", "upgrade", "uninstall"}
    for words in typed:
        told = run_helm3(words[1], "--help").stdout
        for option in [word for word in words if word.startswith("--")]:
            assert f"{option} " in told, option
        if words[1] in ("install", "upgrade"):
            assert (ROOT / "helm/fanfold").samefile(CHART)
            assert {RELEASE, "helm/fanfold"} <= set(words)
            assert words[words.index("--values") + 1] in files()


def test_what_is_called_in_a_pod_is_there() -> None:
    (typed,) = [words for words in commands("helm") if words[0] == "kubectl"]
    target, inside = typed[typed.index("exec") + 1], typed[typed.index("--") + 1 :]
    kind, _, name = target.partition("/")
    assert kind == "deploy"
    container = release("chart-trial.yaml").get("Deployment", name)["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == inside[:1] == ["fanfold"]
    group = typer.main.get_command(app)
    assert inside[1:3] == ["keys", "create"]
    group.commands["keys"].commands["create"].make_context("create", inside[3:])  # type: ignore[attr-defined]


def test_the_secrets_that_are_made_are_those_that_are_needed() -> None:
    made = {}
    for words in commands("kubectl"):
        assert words[3:6] == ["create", "secret", "generic"]
        made[words[6]] = {word.removeprefix("--from-literal=").partition("=")[0] for word in words[7:]}
    needed: dict[str, set[str]] = {}
    for workload in release("chart-values.yaml").workloads:
        for kind, name, key in references(workload):
            if kind == "Secret":
                needed.setdefault(name, set()).update({key} if key else set())
    assert set(made) == set(needed)
    assert all(keys <= made[name] for name, keys in needed.items())


def test_the_numbers_on_the_page_are_the_chart_s() -> None:
    text = PAGE.read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = (CHART / "values.schema.json").read_text()
    given = values["workerDefaults"]["terminationGracePeriodSeconds"]
    assert f"`terminationGracePeriodSeconds`: {given}," in text
    least = re.search(r"never less than (\d+), because a worker needs up to (\d+)", text.replace("\n", " "))
    assert least is not None
    assert f'"minimum": {least[1]}' in schema
    assert int(least[2]) < int(least[1]) < given


@pytest.mark.parametrize("page", [CHART / "README.md", PAGE], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / link).exists(), link
