"""The chart as Helm renders it: with the engine of Helm 4 (`helm-python-sdk`), and with Helm 3's command line."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from tests.conftest import missing

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "fanfold"
CASES = sorted((CHART / "ci").glob("*.yaml"))
"""Files of values that render."""
RELEASE, NAMESPACE = "demo", "agents"
OLDEST = "1.31.0"
"""The oldest Kubernetes that the chart is for."""
SECONDS = 60
SECRETS = {
    "FANFOLD_DATABASE_URL": "postgresql://fanfold:x@db/fanfold",
    "FANFOLD_REDIS_URL": "redis://:x@broker:6379/0",
    "FANFOLD_SECRET_KEY": base64.b64encode(bytes(32)).decode(),
}
"""What the operator's own Secrets would have, by the variable."""
POD_KINDS = ("Deployment", "StatefulSet", "Job", "Pod")

Document = dict[str, Any]


def values_of(case: Path) -> Document:
    """The values in a file."""
    found: Document = yaml.safe_load(case.read_text())
    return found


def sdk() -> ModuleType:
    """Helm 4's engine."""
    try:
        import helm_python
    except ImportError:
        missing("helm-python-sdk is not installed.")
    return helm_python


def helm3() -> Path:
    """Helm 3's command line, where scripts/ensure-chart-tools.sh puts it."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    program = Path(cache) / "fanfold" / "helm3" / "node_modules" / ".bin" / "helm"
    if not program.exists():
        missing("There is no Helm 3.")
    return program


def run_helm3(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run([helm3(), *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)


@dataclass(frozen=True)
class Workload:
    """Something that makes pods."""

    kind: str
    name: str
    component: str
    template: Document
    """Of its pods: metadata and spec."""

    @property
    def spec(self) -> Document:
        """Of a pod."""
        found: Document = self.template["spec"]
        return found

    @property
    def labels(self) -> dict[str, str]:
        """Of a pod."""
        return dict(self.template["metadata"].get("labels", {}))

    @property
    def containers(self) -> list[Document]:
        """Of a pod, those before its start too."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]


@dataclass(frozen=True)
class Rendered:
    """What a release consists of."""

    values: Document
    documents: list[Document]

    def of(self, *kinds: str) -> list[Document]:
        """The objects of these kinds."""
        return [one for one in self.documents if one["kind"] in kinds]

    def names(self, kind: str) -> set[str]:
        """The names of all objects of a kind."""
        return {one["metadata"]["name"] for one in self.of(kind)}

    def get(self, kind: str, name: str) -> Document:
        """One object."""
        return next(one for one in self.of(kind) if one["metadata"]["name"] == name)

    @cached_property
    def workloads(self) -> list[Workload]:
        """Everything that makes pods."""
        return [
            Workload(
                one["kind"],
                one["metadata"]["name"],
                one["metadata"]["labels"]["app.kubernetes.io/component"],
                one if one["kind"] == "Pod" else one["spec"]["template"],
            )
            for one in self.of(*POD_KINDS)
        ]

    def workload(self, component: str) -> Workload:
        """The first of a component."""
        return next(one for one in self.workloads if one.component == component)

    def processes(self) -> Iterator[tuple[Workload, Document]]:
        """The containers in which `fanfold` runs."""
        for workload in self.workloads:
            for container in workload.containers:
                if container.get("command") == ["fanfold"]:
                    yield workload, container


def documents_in(text: str) -> list[Document]:
    """The objects in YAML."""
    return [one for one in yaml.safe_load_all(text) if one]


def render(values: Mapping[str, Any], *, name: str = RELEASE, upgrade: bool = False) -> Rendered:
    """Render with Helm 4's engine. Raises `HelmError` for values that are refused."""
    with sdk().Chart.load(CHART) as chart:
        chart.validate_schema(dict(values))
        files = chart.render(dict(values), name=name, namespace=NAMESPACE, is_install=not upgrade, is_upgrade=upgrade)
    texts = [text for path, text in sorted(files.items()) if not path.endswith("NOTES.txt")]
    return Rendered(dict(values), [one for text in texts for one in documents_in(text)])


def notes(values: Mapping[str, Any]) -> str:
    """What is told after an installation."""
    with sdk().Chart.load(CHART) as chart:
        found: str = chart.render(dict(values), name=RELEASE, namespace=NAMESPACE)["fanfold/templates/NOTES.txt"]
        return found


def render3(case: Path) -> Rendered:
    """Render a file of values with Helm 3."""
    done = run_helm3("template", RELEASE, CHART, "-f", case, "--namespace", NAMESPACE, "--kube-version", OLDEST)
    assert done.returncode == 0, done.stderr
    return Rendered(values_of(case), documents_in(done.stdout))


def environment(rendered: Rendered, container: Document) -> dict[str, str]:
    """The variables as a container gets them: of ConfigMaps, its own, with those in them filled in."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            found |= rendered.get("ConfigMap", source["configMapRef"]["name"])["data"]
    for variable in container.get("env", []):
        value = variable["value"] if "value" in variable else _secret(rendered, variable)
        found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], value)
    return found


def _secret(rendered: Rendered, variable: Document) -> str:
    """The value of a variable that is in a Secret: the chart's, or an operator's."""
    reference = variable["valueFrom"].get("secretKeyRef", {})
    if reference.get("name") in rendered.names("Secret"):
        return base64.b64decode(rendered.get("Secret", reference["name"])["data"][reference["key"]]).decode()
    return SECRETS.get(variable["name"], "secret")
