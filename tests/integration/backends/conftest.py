"""The services behind the examples: a PostgreSQL server of our own, and an S3 server in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import URL

from examples.backends.postgres import PostgresBackend
from examples.backends.s3 import S3Backend
from tests.services import postgres_server
from tests.services_s3 import S3Server, s3_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A PostgreSQL server that nobody else has."""
    with postgres_server() as server:
        yield server.url()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server that nobody else has."""
    with s3_server() as server:
        yield server


@pytest.fixture
def postgres_backend(postgres: URL) -> Iterator[PostgresBackend]:
    """Over a table of its own."""
    engine = create_engine(postgres, pool_size=20)
    backend = PostgresBackend(engine, table=f"files_{uuid.uuid4().hex}")
    backend.create_table()
    try:
        yield backend
    finally:
        engine.dispose()


@pytest.fixture
def s3_backend(s3: S3Server) -> S3Backend:
    """Over a folder of a bucket of its own."""
    return S3Backend(s3.new_bucket(), "agents/7", filesystem=s3.filesystem)
