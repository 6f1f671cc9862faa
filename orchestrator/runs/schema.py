"""Opening the record's database: connections as they must be, and a schema that is up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.exc import NoSuchModuleError as NoSuchDialect

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.locks import file_lock

HEAD = "0001"
"""The newest revision in `migrations/versions`."""
BUSY_TIMEOUT = 10.0
"""Seconds that a writer waits for another one (SQLite)."""
UPGRADE_TIMEOUT = 60.0
"""Seconds to wait while another process upgrades the schema."""

WRITE = {"fanfold_write": True}
"""Execution options of a connection that is going to write."""


def open_database(url: str, lock: Path) -> Engine:
    """An engine for an up-to-date database. `lock` is a file that keeps two upgrades apart.

    Raises `BadInput` for an address that makes no sense, `InfrastructureError` when the database cannot be used.
    """
    engine = _make_engine(url)
    try:
        if _revision(engine) != HEAD:
            with file_lock(lock, timeout=UPGRADE_TIMEOUT, why="the database is being upgraded"):
                _upgrade(engine)
    except SQLAlchemyError as exc:
        engine.dispose()
        reason = getattr(exc, "orig", None) or exc
        raise InfrastructureError(f"the database {engine.url.render_as_string()} cannot be used: {reason}") from exc
    except BaseException:
        engine.dispose()
        raise
    return engine


def _make_engine(url: str) -> Engine:
    try:
        engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT} if url.startswith("sqlite") else {})
    except (ArgumentError, NoSuchDialect, ImportError) as exc:
        raise BadInput(f"FANFOLD_DATABASE_URL cannot be used: {exc}") from exc
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself: `_begin_sqlite` does
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes would fail when another writer came between: writers begin as writers.
    writes = connection.get_execution_options().get("fanfold_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        try:
            return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        except SQLAlchemyError:
            connection.rollback()
            if inspect(connection).has_table("alembic_version"):
                raise
            return None


def _upgrade(engine: Engine) -> None:
    """Bring the schema to `HEAD`. Whoever waited for the lock may find that it is there."""
    current = _revision(engine)
    if current == HEAD:
        return
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


