"""A database that an earlier version made is brought up to date, and nothing in it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, insert, inspect, text

from orchestrator.runs import schema
from orchestrator.runs.engine import WRITE, make_engine
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Artifact, AttemptStatus, NewEvent, RunError, RunStatus
from orchestrator.runs.schema import HEAD, open_database
from orchestrator.runs.store import Store, now
from tests.unit.orchestrator.runs.families import Kin

MIGRATIONS = Path(schema.__file__).parent / "migrations"
EARLIER = [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions() if script.revision != HEAD]

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ENDED = BEGAN + timedelta(seconds=7)
NOTHING_YET: dict[str, Any] = {
    "status": "pending", "spec": {"command": "x"}, "created_at": BEGAN, "attempt": 0, "cancel_requested": False,
    "lease_token": 0, "last_seq": 0,
}  # fmt: skip
BEGUN = NOTHING_YET | {
    "status": "running", "attempt": 1, "lease_token": 1, "worker": "w1", "started_at": BEGAN, "heartbeat_at": BEGAN,
}  # fmt: skip
OVER = {"status": "error", "error_kind": "task", "error_message": "no", "finished_at": ENDED}
RUNS = [
    {**NOTHING_YET, "id": "run-pending", "name": "waits"},
    {**BEGUN, "id": "run-running", "name": "runs", "sandbox": {"id": "sbx-1", "provider": "local"}, "last_seq": 1},
    {**BEGUN, **OVER, "id": "run-over", "name": "over", "last_seq": 1},
]
EVENT = {"type": "log", "at": BEGAN, "data": {"level": "info", "text": "hello"}}
ARTIFACT = {"name": "a.txt", "size": 5_000_000_000, "sha256": "0" * 64, "created_at": BEGAN}


@contextmanager
def migrating(url: str) -> Iterator[Config]:
    """For Alembic's commands, over a connection to this database."""
    engine = make_engine(url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.connect().execution_options(**WRITE) as connection:
        config.attributes["connection"] = connection
        yield config
        connection.commit()
    engine.dispose()


def fill(connection: Connection) -> None:
    """Rows as that schema has them; what came later is left to its default."""
    tables = MetaData()
    tables.reflect(connection)
    runs = tables.tables["runs"]
    sent = {"dispatched_at": BEGAN} if "dispatched_at" in runs.columns else {}
    for row in RUNS:
        connection.execute(insert(runs).values(row | sent))
    for run_id in ("run-running", "run-over"):
        connection.execute(insert(tables.tables["events"]).values(EVENT | {"run_id": run_id, "seq": 1}))
    connection.execute(insert(tables.tables["artifacts"]).values(ARTIFACT | {"run_id": "run-over"}))
    if "attempts" in tables.tables:
        running = {"number": 1, "worker": "w1", "started_at": BEGAN}
        for row in ({"run_id": "run-running", "status": "running"}, {**OVER, "run_id": "run-over"}):
            connection.execute(insert(tables.tables["attempts"]).values(running | row))


@pytest.fixture(params=EARLIER)
def upgraded(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Store]:
    with migrating(database) as config:
        command.upgrade(config, request.param)
        fill(config.attributes["connection"])
    store = Store(open_database(database, tmp_path / "lock"))
    yield store
    store.close()


def test_what_was_recorded_is_still_there(upgraded: Store) -> None:
    over = upgraded.get("run-over")
    assert (over.name, over.spec) == ("over", {"command": "x"})
    assert (over.status, over.error) == (RunStatus.ERROR, RunError("task", "no"))
    assert (over.created_at, over.started_at, over.finished_at) == (BEGAN, BEGAN, ENDED)
    assert [(event.type, event.at, event.data) for event in upgraded.events("run-over")] == [("log", BEGAN, EVENT["data"])]
    assert upgraded.artifacts("run-over") == [Artifact(run_id="run-over", **ARTIFACT)]
    assert {run.id for run in upgraded.recent()} == {"run-pending", "run-running", "run-over"}


def test_the_last_attempt_of_each_run_is_known(upgraded: Store) -> None:
    assert upgraded.attempts("run-pending") == []
    (over,) = upgraded.attempts("run-over")
    assert (over.number, over.worker, over.status, over.error) == (1, "w1", AttemptStatus.ERROR, RunError("task", "no"))
    assert (over.started_at, over.finished_at) == (BEGAN, ENDED)


def test_runs_go_on_where_they_were(upgraded: Store) -> None:
    assert set(upgraded.unclaimed()) == {"run-pending", "run-running"}
    assert now() - BEGAN > timedelta(seconds=LEASE_TTL)
    for run_id in ("run-pending", "run-running"):
        lease = upgraded.claim(run_id, "w2")
        assert lease is not None
        upgraded.append(lease, [NewEvent("log", {}, now())])
        upgraded.finish(lease, RunStatus.SUCCESS)
    assert [event.seq for event in upgraded.events("run-running")] == [1, 2, 3]
    assert [one.status for one in upgraded.attempts("run-running")] == [AttemptStatus.LOST, AttemptStatus.SUCCESS]


def test_every_step_can_be_undone_and_done_again(database: str) -> None:
    with migrating(database) as config:
        command.upgrade(config, "head")
        command.downgrade(config, "base")
    assert tables_of(database) == {"alembic_version"}
    with migrating(database) as config:
        command.upgrade(config, "head")
    assert "runs" in tables_of(database)


def test_children_do_not_outlive_the_schema_that_tells_them_from_other_runs(database: str, tmp_path: Path) -> None:
    store = Store(open_database(database, tmp_path / "lock"))
    kin = Kin(store, now)
    kin.begin(kin.top("run-top"), "child")
    store.close()
    with migrating(database) as config:
        command.downgrade(config, "0005")
        runs = config.attributes["connection"].execute(text("SELECT id FROM runs")).scalars().all()
        command.upgrade(config, "head")
    assert runs == ["run-top"]


def tables_of(url: str) -> set[str]:
    engine = make_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()
