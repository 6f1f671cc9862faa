"""Writes what the chart has from elsewhere: the table of values in its README, and the rules and dashboards of `infra/`.

`python scripts/chart.py` writes; `--check` says what is stale, and ends with exit code 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from written import ROOT, main

CHART = ROOT / "helm" / "fanfold"
BEGIN, END = "<!-- values: scripts/chart.py -->\n", "<!-- end of values -->\n"
COPIED = {"files/rules": ("infra/prometheus", "*.yaml"), "files/dashboards": ("infra/grafana/dashboards", "*.json")}
"""Folders of the chart, and where their files come from: a chart cannot read what is outside of it."""


def rows(schema: Mapping[str, Any], values: Any, path: str = "") -> Iterator[str]:
    """A line for each value that can be given, in the order of the schema."""
    for name, part in schema["properties"].items():
        key = f"{path}.{name}" if path else name
        default = values.get(name) if isinstance(values, Mapping) else None
        if part.get("properties"):
            yield f"| **`{key}`** | {part['description']} | |"
            yield from rows(part, default, key)
        else:
            yield f"| `{key}` | {part['description']} | {shown(default)} |"


def shown(value: Any) -> str:
    """A default, for people."""
    if value is None or value in ("", [], {}):
        return ""
    return f"`{json.dumps(value) if isinstance(value, list | dict | bool) else value}`"


def readme() -> str:
    """The chart's README with the table as it should be."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    before, _, rest = (CHART / "README.md").read_text().partition(BEGIN)
    table = "\n".join(["| value | what | default |", "|---|---|---|", *rows(schema, values)])
    return f"{before}{BEGIN}\n{table}\n\n{END}{rest.partition(END)[2]}"


def wanted() -> dict[Path, str]:
    """Each file that this script writes, with its content."""
    found = {CHART / "README.md": readme()}
    for folder, (source, pattern) in COPIED.items():
        for path in sorted((ROOT / source).glob(pattern)):
            found[CHART / folder / path.name] = path.read_text()
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, wanted(), [CHART / folder for folder in COPIED]))
