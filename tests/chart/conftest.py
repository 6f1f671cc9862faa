"""Fixtures of the chart's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chart.charts import CASES, Rendered, render, values_of


@pytest.fixture(params=CASES, ids=lambda case: case.stem)
def case(request: pytest.FixtureRequest) -> Path:
    """A file of values that renders."""
    found: Path = request.param
    return found


@pytest.fixture
def rendered(case: Path) -> Rendered:
    """The chart with these values."""
    return render(values_of(case))
