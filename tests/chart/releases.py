"""What earlier versions of the chart made, as far as Kubernetes lets nobody change it.

`python -m tests.chart.releases` notes the version that is there now in `releases/VERSION.json`: do so when it is released.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.chart.charts import CASES, CHART, Document, Rendered, render, values_of

FOLDER = Path(__file__).parent / "releases"

Fixed = dict[str, Any]
"""The fields of an object that cannot be changed, by their path."""

FIELDS: dict[str, tuple[str, ...]] = {
    "Deployment": ("selector",),
    "StatefulSet": ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"),
    "PersistentVolumeClaim": ("accessModes", "storageClassName", "volumeMode"),
    "Service": ("clusterIP",),
    "RoleBinding": ("roleRef",),
    "Secret": ("type",),
}
KEPT = ("StatefulSet", "PersistentVolumeClaim", "Secret")
"""Kinds that hold something: one that is not made any more would leave it behind, or lose it."""


def fixed(document: Document) -> Fixed:
    """What of an object cannot be changed. A claim can grow, but not one that a StatefulSet makes."""
    source = document.get("spec", document)
    return {field: source.get(field) for field in FIELDS[document["kind"]]}


def noted(rendered: Rendered) -> dict[str, Fixed]:
    """By kind and name."""
    return {f"{one['kind']}/{one['metadata']['name']}": fixed(one) for one in rendered.of(*FIELDS)}


def complaints(before: dict[str, Fixed], now: dict[str, Fixed]) -> list[str]:
    """What an upgrade from `before` to `now` would be refused for, or would lose."""
    found = []
    for name, fields in before.items():
        if name not in now:
            if name.partition("/")[0] in KEPT:
                found.append(f"{name} is not made any more")
            continue
        found += [f"{name}: {field} cannot be changed" for field, value in fields.items() if now[name][field] != value]
    return found


def version() -> str:
    """Of the chart that is there now."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text())["version"])


def note(write: Callable[[str], object]) -> Path:
    """Note the chart that is there now."""
    path = FOLDER / f"{version()}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({case.stem: noted(render(values_of(case))) for case in CASES}, indent=1, sort_keys=True) + "\n")
    write(f"{path}\n")
    return path


if __name__ == "__main__":
    note(sys.stdout.write)
