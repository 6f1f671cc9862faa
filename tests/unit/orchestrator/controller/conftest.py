"""A record on a real SQLite file, and waiting for what a thread does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store

DEADLINE = 30.0
"""Seconds for anything here to come true."""


@pytest.fixture
def record(store: Store, database: str, tmp_path: Path) -> Iterator[ControlRecord]:
    opened = ControlRecord(open_database(database, tmp_path / "lock"))
    yield opened
    opened.close()


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    return wait
