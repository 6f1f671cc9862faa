"""A run that a worker has, on each of the two databases, and savers of its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from orchestrator.agent.checkpoints import RecordSaver
from orchestrator.runs.checkpointing import Checkpoints
from orchestrator.runs.database import now
from orchestrator.runs.models import NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from tests.services import PostgresServer, postgres_server

LATER = timedelta(hours=1)
"""Longer than any worker may be silent."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'fanfold.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.fresh_database() as address:
        yield address.render_as_string(hide_password=False)


@pytest.fixture
def engine(database: str, tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(database, tmp_path / "lock")
    yield opened
    opened.dispose()


class Workers:
    """One worker after the other has the run `run-a`: each was silent for so long that the next one claims it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ahead = timedelta()
        self._store = Store(engine, self._clock)
        self._store.add(NewRun("run-a", "name", {}))

    def _clock(self) -> datetime:
        return now() + self._ahead

    def record(self) -> Checkpoints:
        """The checkpoints as the next worker has them."""
        self._ahead += LATER
        lease = self._store.claim("run-a", "worker")
        assert lease is not None
        return Checkpoints(self._engine, lease)

    def saver(self) -> RecordSaver:
        """Those, for langgraph."""
        return RecordSaver(self.record())


@pytest.fixture
def workers(engine: Engine) -> Workers:
    return Workers(engine)


@pytest.fixture
def saver(workers: Workers) -> Callable[[], RecordSaver]:
    """A saver as the next worker has it."""
    return workers.saver
