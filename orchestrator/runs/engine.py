"""Connections to the record's database as they must be, on SQLite and on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import NoSuchModuleError as NoSuchDialect

from orchestrator.errors import BadInput

BUSY_TIMEOUT = 10.0
"""Seconds that a writer waits for another one (SQLite)."""
CONNECT_TIMEOUT = 10
"""Seconds for a server to take a new connection (PostgreSQL)."""
SILENCE_TIMEOUT = 15
"""Seconds after which a server that no longer answers counts as gone (PostgreSQL)."""
POOL_SIZE = 10
"""Connections that a process keeps."""
POOL_OVERFLOW = 20
"""Connections beyond these that it opens under load."""
POOL_TIMEOUT = 30.0
"""Seconds that a call waits for a connection."""

WRITE = {"fanfold_write": True}
"""Execution options of a connection that is going to write."""
_TURN = "fanfold_turn"
"""Execution option of an engine for SQLite: the lock that its writers take turns by."""

_POSTGRES = ("postgres", "postgresql", "postgresql+psycopg")


def make_engine(url: str) -> Engine:
    """An engine that has not connected yet. Raises `BadInput` for an address that makes no sense, or that needs an extra."""
    try:
        parsed = _with_driver(make_url(url))
        sizes = {"pool_size": POOL_SIZE, "max_overflow": POOL_OVERFLOW, "pool_timeout": POOL_TIMEOUT}
        told = {_TURN: threading.Lock()} if parsed.drivername.startswith("sqlite") else {}
        pool = {} if parsed.database == ":memory:" else sizes
        # A connection is asked whether it lives before it is used: a server that was away is not an error of the next call.
        engine = create_engine(
            parsed, connect_args=_connect_args(parsed), execution_options=told, pool_pre_ping=True, **pool
        )
    except ModuleNotFoundError as exc:
        hint = "; install fanfold[postgres]" if exc.name == "psycopg" else ""
        raise BadInput(f"FANFOLD_DATABASE_URL cannot be used: {exc}{hint}") from exc
    except (ArgumentError, NoSuchDialect, ImportError) as exc:
        raise BadInput(f"FANFOLD_DATABASE_URL cannot be used: {exc}") from exc
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    elif engine.dialect.name != "postgresql":
        raise BadInput(f"FANFOLD_DATABASE_URL cannot be used: {engine.dialect.name} is neither sqlite nor postgresql")
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes."""
    with _turn(engine), engine.connect().execution_options(**WRITE) as connection, connection.begin():
        yield connection


@contextmanager
def _turn(engine: Engine) -> Iterator[None]:
    """On SQLite, that of this process's writers: one that finds another one there sleeps, and looks again ever later.

    Who has waited for too long goes on and has SQLite tell so, as it does of the writers of other processes.
    """
    lock = engine.get_execution_options().get(_TURN)
    if lock is None:
        yield
        return
    taken = lock.acquire(timeout=BUSY_TIMEOUT)
    try:
        yield
    finally:
        if taken:
            lock.release()


def _with_driver(url: URL) -> URL:
    """The address with the one driver that we use, however an operator's tools write it."""
    return url.set(drivername="postgresql+psycopg") if url.drivername in _POSTGRES else url


def _connect_args(url: URL) -> dict[str, Any]:
    """What the driver is told, unless the address says otherwise."""
    if url.drivername.startswith("sqlite"):
        return {"timeout": BUSY_TIMEOUT}
    if url.drivername != "postgresql+psycopg":
        return {}
    wanted = {
        "application_name": "fanfold",
        "client_encoding": "utf8",
        "connect_timeout": CONNECT_TIMEOUT,
        "keepalives_idle": SILENCE_TIMEOUT,
        "tcp_user_timeout": SILENCE_TIMEOUT * 1000,
    }
    return {name: value for name, value in wanted.items() if name not in url.query}


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself: `_begin_sqlite` does
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes would fail when another writer came between: writers begin as writers.
    writes = connection.get_execution_options().get("fanfold_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
