"""A store on each of the two databases: a real SQLite file, and a database of a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from orchestrator.runs.database import now
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from tests.services import PostgresServer, postgres_server


class Clock:
    """The real time, and what a test adds to it."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return now() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._ahead += timedelta(seconds=seconds)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def new_database(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Makes an empty database on `sqlite` or `postgresql`; its address."""
    with ExitStack() as stack:

        def make(kind: str) -> str:
            if kind == "sqlite":
                return f"sqlite:///{tmp_path / 'fanfold.db'}"
            server: PostgresServer = request.getfixturevalue("postgres")
            return stack.enter_context(server.fresh_database()).render_as_string(hide_password=False)

        yield make


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    """The address of an empty database."""
    return new_database(request.param)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: str, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = Store(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


@pytest.fixture
def engine(database: str, tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(database, tmp_path / "lock")
    yield opened
    opened.dispose()
