"""Writes what the chart has from elsewhere: the table of values in its README, and the rules and dashboards of `infra/`.

`python scripts/chart.py` writes; `--check` says what is stale, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
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


def surplus(files: Mapping[Path, str]) -> list[Path]:
    """Copies of what is not there any more."""
    return [path for folder in COPIED for path in sorted((CHART / folder).glob("*")) if path not in files]


def main(arguments: list[str] | None = None) -> int:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say what is stale")
    check = parser.parse_args(arguments).check
    files = wanted()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    gone = surplus(files)
    if check:
        for path in stale + gone:
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale: python scripts/chart.py\n")
        return 1 if stale or gone else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path])
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
