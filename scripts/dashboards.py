"""Writes Grafana's dashboards, `infra/grafana/dashboards/*.json`, from `infra/grafana/dashboards.yaml`.

`python scripts/dashboards.py` writes; `--check` says what is stale, and ends with exit code 1. `scripts/chart.py` copies them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from written import ROOT, main

GRAFANA = ROOT / "infra" / "grafana"
SCHEMA = 39
"""The version of the model of dashboards: that of Grafana 11. Later ones bring it up to date as they load it."""
WIDTH = 24
"""Columns of Grafana's grid."""
SIZES = {"stat": (6, 4), "lines": (12, 8), "table": (12, 9)}
"""Columns and rows of a panel, by its kind."""
TYPES = {"stat": "stat", "lines": "timeseries", "table": "table"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
ALL = {"calcs": ["lastNotNull"], "fields": "", "values": False}
OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {"colorMode": "none", "graphMode": "area", "reduceOptions": ALL, "textMode": "value"},
    "lines": {
        "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "table": {"showHeader": True, "sortBy": [{"displayName": "Value", "desc": True}]},
}


def dashboard(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """One dashboard, as Grafana imports it."""
    choice = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    others = {"type": "dashboards", "title": "Fanfold", "tags": ["fanfold"], "asDropdown": True, "keepTime": True}
    return {
        "uid": f"fanfold-{name}",
        "title": said["title"],
        "description": said["description"],
        "tags": ["fanfold"],
        "schemaVersion": SCHEMA,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [choice]},
        "links": [others],
        "panels": list(panels(said["panels"])),
    }


def panels(said: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """They fill rows from left to right. A row has panels of one kind, so that they are of one height."""
    x = y = 0
    before = None
    for number, one in enumerate(said, 1):
        kind = next(kind for kind in TYPES if kind in one)
        width, height = SIZES[kind]
        if before is not None and (kind != before or x + width > WIDTH):
            x, y = 0, y + SIZES[before][1]
        yield panel(number, kind, one, {"x": x, "y": y, "w": width, "h": height})
        x, before = x + width, kind


def panel(number: int, kind: str, said: Mapping[str, Any], place: Mapping[str, int]) -> dict[str, Any]:
    """One panel."""
    made = {
        "id": number,
        "type": TYPES[kind],
        "title": said[kind],
        "description": said["about"],
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": said["unit"], "min": 0}, "overrides": []},
        "options": OPTIONS[kind],
        "targets": [target(letter, kind, *one) for letter, one in zip("ABCD", said["ask"].items(), strict=False)],
    }
    if kind == "table":
        hidden = {"id": "organize", "options": {"excludeByName": {"Time": True, "__name__": True}}}
        made["transformations"] = [hidden]
    return made


def target(letter: str, kind: str, legend: str, query: str) -> dict[str, Any]:
    """One query."""
    asked = {"refId": letter, "datasource": SOURCE, "expr": query.strip(), "legendFormat": legend}
    return {**asked, "instant": True, "range": False, "format": "table"} if kind == "table" else {**asked, "range": True}


def wanted() -> dict[Path, str]:
    """Each file, with its content."""
    said = yaml.safe_load((GRAFANA / "dashboards.yaml").read_text())
    made = {name: dashboard(name, one) for name, one in said.items()}
    return {GRAFANA / "dashboards" / f"{name}.json": json.dumps(one, indent=1) + "\n" for name, one in made.items()}


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, wanted(), [GRAFANA / "dashboards"]))
