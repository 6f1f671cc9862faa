"""The services behind the examples: a PostgreSQL server of our own, and an S3 server in this process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3fs import S3FileSystem
from sqlalchemy import create_engine
from sqlalchemy.engine import URL

from examples.backends.postgres import PostgresBackend
from examples.backends.s3 import S3Backend

DEADLINE = 60.0
"""Seconds for a server to come up, and to end."""


@pytest.fixture(scope="session")
def missing() -> Callable[[str], None]:
    """`tests/conftest.py`'s: skips on a laptop, fails in CI."""
    spec = importlib.util.spec_from_file_location("tests_conftest", Path(__file__).parents[2] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.missing


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's programs: Debian keeps them off the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = debian[-1] if debian else shutil.which("initdb")
    return Path(found).parent if found else None


def start_postgres(programs: Path, folder: Path, user: str | None) -> subprocess.Popen[bytes]:
    """A new cluster in `folder`, served on a socket there and nowhere else."""
    data = folder / "data"
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "fanfold", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"],
        check=True, capture_output=True, user=user, cwd=folder, timeout=DEADLINE,
    )  # fmt: skip
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, *options], stdout=log, stderr=log, user=user, cwd=folder
        )


def wait_for_postgres(programs: Path, folder: Path, server: subprocess.Popen[bytes]) -> None:
    """Return when it answers; fail with its log when it does not."""
    deadline = time.monotonic() + DEADLINE
    while subprocess.run([programs / "pg_isready", "-q", "-h", folder], check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"PostgreSQL did not come up:\n{(folder / 'log').read_text()}")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def postgres(missing: Callable[[str], None]) -> Iterator[URL]:
    """A PostgreSQL server that nobody else has; it refuses to run as root, so that root starts it as `postgres`."""
    programs = postgres_programs()
    if programs is None:
        missing("There is no PostgreSQL.")
    assert programs is not None
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="ff-pg-"))
    if user is not None:
        shutil.chown(folder, user)
    server = start_postgres(programs, folder, user)
    try:
        wait_for_postgres(programs, folder, server)
        yield URL.create("postgresql+psycopg", username="fanfold", database="postgres", query={"host": str(folder)})
    finally:
        server.send_signal(signal.SIGINT)  # ends the connections that are left, then the server
        server.wait(DEADLINE)
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def s3_endpoint(missing: Callable[[str], None]) -> Iterator[str]:
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
