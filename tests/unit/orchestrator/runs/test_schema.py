"""Opening the database: made when it is new, left alone when it is right, refused when it is from the future."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, ForeignKeyConstraint, func, select, text
from sqlalchemy.schema import SchemaItem

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs import checkpoint_tables, schema, service_tables  # noqa: F401 - they fill the metadata
from orchestrator.runs.columns import metadata
from orchestrator.runs.engine import WRITE, make_engine
from orchestrator.runs.schema import HEAD, UPGRADE_KEY, open_database

MIGRATIONS = Path(schema.__file__).parent / "migrations"


def test_the_head_is_the_newest_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_the_migrations_make_the_tables_that_the_code_uses(engine: Engine) -> None:
    with engine.connect() as connection:
        # SQLAlchemy does not see what SQLite does on delete where a column was added with its reference: that is asked below.
        seen = {"include_object": _is_seen} if engine.dialect.name == "sqlite" else {}
        assert compare_metadata(MigrationContext.configure(connection, opts=seen), metadata) == []


def _is_seen(item: SchemaItem, *_: object) -> bool:
    return not (isinstance(item, ForeignKeyConstraint) and item.table.name == "runs")


def test_sqlite_deletes_children_with_their_parent(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'fanfold.db'}", tmp_path / "lock")
    with engine.connect() as connection:
        told = connection.execute(text("SELECT \"from\", \"table\", on_delete FROM pragma_foreign_key_list('runs')")).all()
    engine.dispose()
    assert [tuple(row) for row in told] == [("parent_id", "runs", "CASCADE")]


def test_an_up_to_date_database_opens_fast_and_without_alembic(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'fanfold.db'}"
    open_database(database, tmp_path / "lock").dispose()
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom orchestrator.runs.schema import open_database\n"
        f"began = time.perf_counter()\nopen_database({database!r}, Path({str(tmp_path / 'lock')!r})).dispose()\n"
        "print(time.perf_counter() - began, 'alembic' in sys.modules)"
    )
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        seconds, alembic = done.stdout.split()
        assert alembic == "False"
        times.append(float(seconds))
    assert min(times) < 0.05


def test_processes_that_open_a_new_database_at_once_all_succeed(database: str, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom orchestrator.runs.schema import open_database\n"
        "open_database(sys.argv[1], Path(sys.argv[2])).dispose()"
    )
    command = [sys.executable, "-W", "error", "-c", script, database, str(tmp_path / "lock")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in processes] == [("", 0)] * 4


def test_a_database_of_a_newer_fanfold_is_refused(database: str, tmp_path: Path) -> None:
    engine = open_database(database, tmp_path / "lock")
    with engine.connect().execution_options(**WRITE) as connection, connection.begin():
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(InfrastructureError, match="made by a newer fanfold"):
        open_database(database, tmp_path / "lock")


@pytest.mark.parametrize("url", ["nonsense", "nosuch://x/y"])
def test_an_address_that_makes_no_sense_is_bad_input(url: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="FANFOLD_DATABASE_URL"):
        open_database(url, tmp_path / "lock")


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(InfrastructureError, match=r"x\.db cannot be used: file is not a database"):
        open_database(f"sqlite:///{path}", tmp_path / "lock")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="unable to open database file"):
        open_database(f"sqlite:///{tmp_path}/nowhere/x.db", tmp_path / "lock")


def test_waiting_for_an_upgrade_has_a_deadline(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "UPGRADE_TIMEOUT", 0.1)
    began = time.monotonic()
    with upgrading(make_engine(database), tmp_path / "lock"), pytest.raises(InfrastructureError, match="is being upgraded"):
        open_database(database, tmp_path / "lock")
    assert time.monotonic() - began < 5
    open_database(database, tmp_path / "lock").dispose()


@contextmanager
def upgrading(engine: Engine, lock: Path) -> Iterator[None]:
    """Hold what another process holds while it upgrades this database."""
    holder = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_lock(UPGRADE_KEY)))
            yield
            connection.invalidate()
    finally:
        os.close(holder)
        engine.dispose()


@pytest.mark.parametrize("prefix", ["postgres", "postgresql", "postgresql+psycopg"])
def test_an_address_of_postgresql_is_taken_however_it_is_written(prefix: str) -> None:
    assert make_engine(f"{prefix}://me@nowhere/x").dialect.driver == "psycopg"


def test_a_database_that_is_neither_of_the_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="FANFOLD_DATABASE_URL"):
        open_database("mysql://x/y", tmp_path / "lock")


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot be used"):
        open_database(f"postgresql://me@/x?host={tmp_path}", tmp_path / "lock")
