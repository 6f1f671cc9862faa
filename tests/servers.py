"""A PostgreSQL and a Redis that are known by their addresses alone: given by whoever runs the tests, or started here."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
from sqlalchemy import URL, create_engine, make_url, text

from tests.conftest import missing
from tests.services import DEADLINE, PostgresServer, free_port

DATABASE_URL = "FANFOLD_TEST_DATABASE_URL"
"""Variable with the address of a PostgreSQL whose user may create databases. Tests make databases of their own in it."""
REDIS_URL = "FANFOLD_TEST_REDIS_URL"
"""Variable with the address of a Redis or Valkey. Its database must be empty, and is emptied again."""
PASSWORD = "p@ss:w/rd %41#?&=+é"
"""What an address can hold only in an escaped form."""
REDIS_DATABASE = 3
DATABASE_PREFIX = "fanfold_test_"
POLL = 0.02


@dataclass(frozen=True)
class Servers:
    """Both, and how to disturb them."""

    database_url: str
    """Of a database in which others can be created."""
    redis_url: str
    lose_postgres: Callable[[], None]
    """Break every connection, without a word; afterwards it answers again, and has kept what it had said yes to."""
    lose_redis: Callable[[], None]
    """Break every connection, without a word; afterwards it answers again, and has forgotten everything."""

    @contextmanager
    def fresh_database(self) -> Iterator[str]:
        """The address of an empty database that is gone afterwards."""
        name = f"{DATABASE_PREFIX}{uuid.uuid4().hex}"
        administer(self.database_url, f"CREATE DATABASE {name}")
        try:
            yield make_url(self.database_url).set(database=name).render_as_string(hide_password=False)
        finally:
            administer(self.database_url, f"DROP DATABASE {name} WITH (FORCE)")


def administer(url: str, statement: str) -> None:
    """Have a PostgreSQL do one thing, outside of any transaction."""
    engine = create_engine(_with_driver(make_url(url)), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(statement))
    finally:
        engine.dispose()


def redis_address(port: int) -> str:
    """Of a Redis of this machine, with its password and a database of its own."""
    return f"redis://:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{REDIS_DATABASE}"


def await_redis(url: str) -> None:
    """Wait until it answers to its password."""
    deadline = time.monotonic() + DEADLINE
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                assert time.monotonic() < deadline, f"Redis did not come up within {DEADLINE:g} s"
                time.sleep(POLL)


@contextmanager
def servers_by_url(given: Mapping[str, str]) -> Iterator[Servers]:
    """Those that these variables name; for one that is not named, a server of this machine that is gone afterwards."""
    with _postgres(given.get(DATABASE_URL)) as (database_url, lose_postgres), _redis(given.get(REDIS_URL)) as (url, lose):
        yield Servers(database_url, url, lose_postgres, lose)


@contextmanager
def _postgres(given: str | None) -> Iterator[tuple[str, Callable[[], None]]]:
    if given is not None:
        yield given, lambda: administer(given, _CUT)
        return
    folder = Path(tempfile.mkdtemp(prefix="ff-pg-"))
    server = _Postgres(folder, password=PASSWORD)
    try:
        server.make()
        server.start()
        yield server.url().render_as_string(hide_password=False), server.crash
    finally:
        server.stop()
        shutil.rmtree(folder)


class _Postgres(PostgresServer):
    def crash(self) -> None:
        """End all of its processes at once, with nothing written; then start it."""
        assert self._server is not None
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(DEADLINE)
        self.start()


_CUT = f"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE starts_with(datname, '{DATABASE_PREFIX}') AND usename = current_user
"""


@contextmanager
def _redis(given: str | None) -> Iterator[tuple[str, Callable[[], None]]]:
    if given is None:
        with redis_server() as own:
            yield own
        return
    with redis.Redis.from_url(given) as client:
        if client.dbsize():
            pytest.fail(f"{REDIS_URL}: its database is not empty; name another one, redis://HOST:PORT/NUMBER", pytrace=False)
        try:
            yield given, lambda: _disturb(client, str(client.get_connection_kwargs().get("db", 0)))
        finally:
            client.flushdb()


def _disturb(client: Any, database: str) -> None:
    client.flushdb()
    own = str(client.client_id())
    for one in client.client_list():
        if one["db"] == database and one["id"] != own:
            client.client_kill_filter(_id=one["id"])


@contextmanager
def redis_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """A Redis of this machine with a password: its address, and what has it lose everything."""
    if (program := shutil.which("redis-server")) is None:
        missing("There is no redis-server.")
    port = free_port()
    command = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", PASSWORD]
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        processes.append(subprocess.Popen(command, cwd=tempfile.gettempdir(), stdout=subprocess.DEVNULL))
        await_redis(redis_address(port))

    def end() -> None:
        processes[-1].kill()
        processes[-1].wait(DEADLINE)

    def lose() -> None:
        end()
        start()

    start()
    try:
        yield redis_address(port), lose
    finally:
        end()


def _with_driver(url: URL) -> URL:
    return url.set(drivername="postgresql+psycopg")
