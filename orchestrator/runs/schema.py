"""Opening the record's database: its schema is made, or brought up to date, before anybody uses it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, func, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.errors import InfrastructureError
from orchestrator.locks import file_lock
from orchestrator.runs.engine import WRITE, make_engine

HEAD = "0008"
"""The newest revision in `migrations/versions`."""
UPGRADE_TIMEOUT = 60.0
"""Seconds to wait while another process upgrades the schema."""
UPGRADE_POLL = 0.05
"""Seconds between two looks whether it has."""
UPGRADE_KEY = 0x66616E666F6C64
"""Number of the server's lock for upgrades (PostgreSQL). Each database has locks of its own."""


def open_database(url: str, lock: Path) -> Engine:
    """An engine for an up-to-date database. `lock` is a file that keeps two upgrades apart, where the database is a file.

    Raises `BadInput` for an address that makes no sense, `InfrastructureError` when the database cannot be used.
    """
    engine = make_engine(url)
    try:
        if _revision(engine) != HEAD:
            with _alone(engine, lock):
                _upgrade(engine)
    except SQLAlchemyError as exc:
        engine.dispose()
        reason = getattr(exc, "orig", None) or exc
        raise InfrastructureError(f"the database {engine.url.render_as_string()} cannot be used: {reason}") from exc
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def _alone(engine: Engine, lock: Path) -> Iterator[None]:
    """Hold what keeps two upgrades apart: a file for a database that is one, else a lock of the server."""
    why = "the database is being upgraded"
    if engine.dialect.name == "sqlite":
        with file_lock(lock, timeout=UPGRADE_TIMEOUT, why=why):
            yield
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.detach()  # closing it lets go of the lock, whatever happens
        deadline = time.monotonic() + UPGRADE_TIMEOUT
        while not connection.execute(select(func.pg_try_advisory_lock(UPGRADE_KEY))).scalar():
            if time.monotonic() > deadline:
                raise InfrastructureError(f"another process holds its lock for over {UPGRADE_TIMEOUT:g} s ({why})")
            time.sleep(UPGRADE_POLL)
        yield


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        query = text("SELECT version_num FROM alembic_version")
        try:
            return connection.execute(query).scalar()
        except SQLAlchemyError:
            connection.rollback()
            if not inspect(connection).has_table("alembic_version"):
                return None
            return connection.execute(query).scalar()  # another process may have made it in between


def _check_encoding(engine: Engine) -> None:
    """A database that cannot hold every text would refuse events later, in the middle of runs."""
    if engine.dialect.name != "postgresql":
        return
    with engine.connect() as connection:
        encoding = connection.execute(text("SHOW server_encoding")).scalar()
    if encoding != "UTF8":
        raise InfrastructureError(
            f"the database {engine.url.render_as_string()} has the encoding {encoding}, and fanfold needs UTF8:"
            " make it with `createdb --template template0 --encoding UTF8`"
        )


def _upgrade(engine: Engine) -> None:
    """Bring the schema to `HEAD`. Whoever waited for the lock may find that it is there."""
    current = _revision(engine)
    if current == HEAD:
        return
    _check_encoding(engine)
    from alembic import command  # 0.2 s, and seldom needed
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise InfrastructureError(
            f"the database {engine.url.render_as_string()} was made by a newer fanfold (revision {current}); upgrade fanfold"
        )
    with engine.connect().execution_options(**WRITE) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()


