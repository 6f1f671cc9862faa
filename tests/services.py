"""The services behind tests: a PostgreSQL server that nobody else has."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

from tests.conftest import missing

DEADLINE = 60.0
"""Seconds for a server to come up, and to end."""


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs: Debian keeps them off the path. Skips or fails the test when there is none."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = debian[-1] if debian else shutil.which("initdb")
    if found is None:
        missing("There is no PostgreSQL.")
    assert found is not None
    return Path(found).parent


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class PostgresServer:
    """A cluster of its own, served on a socket in its folder; with a password on a port of the loopback too, else nowhere else.

    PostgreSQL refuses to run as root, so that root starts it as `postgres`.
    """

    def __init__(self, folder: Path, *, durable: bool = False, password: str | None = None) -> None:
        """`durable` has it wait for its disk, which tests need not do. With a `password`, `url` leads to the port."""
        self._password = password
        self._port = free_port() if password else 5432
        self._programs = postgres_programs()
        self._fsync = "on" if durable else "off"
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._server: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make the cluster."""
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        options = ["-U", "fanfold", "--auth-local=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        if self._password is not None:
            secret = self._folder / "password"
            secret.write_text(self._password)
            shutil.chown(secret, self._user or os.geteuid())
            options += ["--auth-host=scram-sha-256", "--pwfile", str(secret)]
        subprocess.run(
            [self._programs / "initdb", "-D", self._folder / "data", *options],
            check=True, capture_output=True, user=self._user, cwd=self._folder, timeout=DEADLINE,
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers; fail with its log when it does not."""
        listen = "127.0.0.1" if self._password is not None else ""
        options = ["-p", str(self._port), "-c", f"listen_addresses={listen}", "-c", f"fsync={self._fsync}"]
        options += ["-c", "max_connections=200"]
        with (self._folder / "log").open("wb") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder, *options],
                stdout=log, stderr=log, user=self._user, cwd=self._folder,
            )  # fmt: skip
        deadline = time.monotonic() + DEADLINE
        ready = [self._programs / "pg_isready", "-q", "-h", self._folder, "-p", str(self._port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"PostgreSQL did not come up:\n{(self._folder / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the connections that are left, then the server. It may be started again."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            self._server.wait(DEADLINE)
            self._server = None

    def url(self, database: str = "postgres") -> URL:
        """The address of one of its databases."""
        found = URL.create("postgresql+psycopg", username="fanfold", database=database)
        if self._password is None:
            return found.update_query_dict({"host": str(self._folder)})
        return found.set(password=self._password, host="127.0.0.1", port=self._port)

    @contextmanager
    def fresh_database(self, encoding: str = "UTF8") -> Iterator[URL]:
        """The address of an empty database that is gone afterwards."""
        name = f"test_{uuid.uuid4().hex}"
        self._administer(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
        try:
            yield self.url(name)
        finally:
            self._administer(f"DROP DATABASE {name} WITH (FORCE)")

    def _administer(self, statement: str) -> None:
        engine = create_engine(self.url(), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server that runs, and is gone afterwards. Its folder's name is short, because a socket's path must be."""
    folder = Path(tempfile.mkdtemp(prefix="ff-pg-"))
    server = PostgresServer(folder)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
