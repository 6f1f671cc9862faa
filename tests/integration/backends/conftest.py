"""The services behind the examples: a PostgreSQL server of our own, and an S3 server in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from s3fs import S3FileSystem
from sqlalchemy import create_engine
from sqlalchemy.engine import URL

from examples.backends.postgres import PostgresBackend
from examples.backends.s3 import S3Backend
from tests.conftest import missing
from tests.services import postgres_server

@pytest.fixture(scope="session")
def postgres() -> Iterator[URL]:
    """A PostgreSQL server that nobody else has."""
    with postgres_server() as server:
        yield server.url()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 server of moto's, on a free port of the loopback."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError:
        missing("There is no moto[server].")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


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
def s3_backend(s3_endpoint: str) -> S3Backend:
    """Over a folder of a bucket of its own."""
    filesystem = S3FileSystem(
        key="test", secret="test", endpoint_url=s3_endpoint, use_listings_cache=False, skip_instance_cache=True
    )
    bucket = f"bucket-{uuid.uuid4().hex}"
    filesystem.mkdir(bucket)
    return S3Backend(bucket, "agents/7", filesystem=filesystem)
