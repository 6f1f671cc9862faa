"""A record of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'fanfold.db'}"


@pytest.fixture
def store(database: str, tmp_path: Path) -> Iterator[Store]:
    opened = Store(open_database(database, tmp_path / "lock"))
    yield opened
    opened.close()
