"""A record of its own for each test; and events and runs as a worker records them, for what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.runs.models import Event, Lease, NewRun, Run, RunError, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store

BEGAN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


class _Script:
    """Makes the events of one run, a second apart."""

    def __init__(self) -> None:
        self._seq = 0

    def __call__(self, type: str, **data: Any) -> Event:
        self._seq += 1
        return Event("run-0123456789ab", self._seq, type, BEGAN + timedelta(seconds=self._seq), data)


def _a_run(status: str = "success", error: RunError | None = None, **spec: Any) -> Run:
    """A run that has ended after three seconds."""
    spec = {"name": "mend", "command": "make test", "sandbox": {"provider": "local"}, **spec}
    return Run(
        "run-0123456789ab", "mend", RunStatus(status), spec, BEGAN, BEGAN, BEGAN + timedelta(seconds=3), error=error, attempt=1
    )


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'fanfold.db'}"


@pytest.fixture
def store(database: str, tmp_path: Path) -> Iterator[Store]:
    opened = Store(open_database(database, tmp_path / "lock"))
    yield opened
    opened.close()


@pytest.fixture
def lease(store: Store) -> Lease:
    """That of a worker on the run `run-a`."""
    store.add(NewRun("run-a", "name", {}))
    claimed = store.claim("run-a", "w1")
    assert claimed is not None
    return claimed


@pytest.fixture
def event() -> Callable[..., Event]:
    """`event(type, **data)`: the next event of a run."""
    return _Script()


@pytest.fixture
def a_run() -> Callable[..., Run]:
    """`a_run(status, error, **spec)`: a run that has ended."""
    return _a_run
