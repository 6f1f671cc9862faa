"""Values that contradict each other, or would lose something, are refused with a message that says what to do."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.charts import CHART, NAMESPACE, OLDEST, RELEASE, Document, render, run_helm3, sdk, values_of

OVERLAP = 16
"""Characters that two texts do not share by chance."""


def changed(path: str, value: Any, base: str = "minimal") -> Document:
    """The values of a file with one of them changed."""
    values = copy.deepcopy(values_of(CHART / "ci" / f"{base}.yaml"))
    at = values
    *above, last = path.split(".")
    for key in above:
        at = at.setdefault(key, {})
    at[last] = value
    return values


def refusal(values: Document) -> str:
    with pytest.raises(sdk().HelmError) as caught:
        render(values)
    return str(caught.value)


REFUSED: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "refused.yaml").read_text())


@pytest.mark.parametrize("one", REFUSED, ids=[f"{number}-{one['value']}" for number, one in enumerate(REFUSED)])
def test_it_is_refused(one: dict[str, Any]) -> None:
    assert one["says"] in refusal(changed(one["value"], one["to"], one["of"]))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    told = refusal({})
    for value in ("database", "redis", "secretKey", "artifacts", "sandboxes.providers"):
        assert f"- {value}: " in told


@pytest.mark.parametrize("value", ["database", "sandboxes.providers", "api.repicas"])
def test_helm_3_refuses_the_same(value: str, tmp_path: Path) -> None:
    one = next(one for one in REFUSED if one["value"] == value)
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(changed(value, one["to"], one["of"])))
    done = run_helm3(
        "template", RELEASE, CHART, "-f", tmp_path / "values.yaml", "--namespace", NAMESPACE, "--kube-version", OLDEST
    )
    assert done.returncode != 0
    assert one["says"] in done.stderr


def test_every_refusal_of_the_templates_is_tried() -> None:
    text = (CHART / "templates" / "_refusals.tpl").read_text()
    written = [line for line in text.splitlines() if line and not line.startswith("{{-") and ": " in line]
    tried = "\n".join(one["says"] for one in REFUSED)
    for line in written:
        words = re.split(r"\{\{.*?\}\}", line.partition(": ")[2])
        assert any(part.strip(" :,") and _overlap(part, tried) for part in words), f"nobody tries: {line}"


def _overlap(part: str, tried: str) -> bool:
    """Whether a message that is tried has a piece of this text in it."""
    return any(part[start : start + OVERLAP] in tried for start in range(max(1, len(part) - OVERLAP)))
