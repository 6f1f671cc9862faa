"""What is forgotten: what has ended, is old enough and not among the last ones. Nothing of it stays, and nothing else goes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Table, select

from orchestrator.runs import tables as t
from orchestrator.runs.artifacts import REMOVE_AFTER, ArtifactStore
from orchestrator.runs.engine import make_engine
from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import NewEvent, NewRun, RunError, RunStatus
from orchestrator.runs.retention import RUNS_AT_ONCE, discard
from orchestrator.runs.store import Store, now

HOUR = 3600.0
ENDS = {
    "run-1": RunStatus.SUCCESS,
    "run-2": RunStatus.ERROR,
    "run-3": RunStatus.TIMEOUT,
    "run-4": RunStatus.CANCELLED,
}


@pytest.fixture
def ended(store: Store, clock) -> list[str]:
    """Four runs that ended 4, 3, 2 and 1 hours ago, and two that have not ended."""
    for run_id in ("run-old-pending", "run-old-running"):
        store.add(NewRun(run_id, "name", {}))
    store.claim("run-old-running", "w")
    for run_id, status in ENDS.items():
        store.add(NewRun(run_id, "name", {}))
        lease = store.claim(run_id, "w")
        assert lease is not None
        store.append(lease, [NewEvent("log", {}, now())])
        store.finish(lease, status, RunError("task", "no") if status is RunStatus.ERROR else None)
        clock.advance(HOUR)
    return list(ENDS)


@pytest.mark.parametrize(
    ("older_than", "keep", "chosen"),
    [
        (2.5 * HOUR, None, ["run-1", "run-2"]),
        (None, 1, ["run-1", "run-2", "run-3"]),
        (None, 4, []),
        (None, 0, ["run-1", "run-2", "run-3", "run-4"]),
        (2.5 * HOUR, 3, ["run-1"]),
        (3.5 * HOUR, 0, ["run-1"]),
        (1e300, 0, []),
        (None, None, ["run-1", "run-2", "run-3", "run-4"]),
    ],
)
def test_age_and_number_both_protect_a_run(
    store: Store, ended: list[str], older_than: float | None, keep: int | None, chosen: list[str]
) -> None:
    assert store.prunable(older_than=older_than, keep=keep) == chosen


def test_with_a_run_go_all_its_rows_and_no_others(store: Store, ended: list[str], database: str) -> None:
    store.forget(ended[:3])
    assert {run.id for run in store.recent()} == {"run-4", "run-old-pending", "run-old-running"}
    assert rows_of(database, t.events) == {"run-4"}
    assert rows_of(database, t.attempts) == {"run-4", "run-old-running"}


def test_a_run_that_has_not_ended_is_never_forgotten(store: Store, ended: list[str]) -> None:
    store.forget(["run-old-pending", "run-old-running"])
    assert store.get("run-old-pending").status is RunStatus.PENDING
    assert store.get("run-old-running").status is RunStatus.RUNNING


async def test_folders_go_and_content_that_no_run_refers_to(store: Store, tmp_path: Path) -> None:
    artifacts, runs_dir = ArtifactStore(str(tmp_path / "artifacts"), tmp_path / "spool"), tmp_path / "runs"
    digests: dict[str, str] = {}
    for run_id, words in {"run-1": ["only mine", "shared"], "run-2": ["shared", "also mine"]}.items():
        store.add(NewRun(run_id, "name", {}))
        RunFolder.of(runs_dir, run_id).create()
        lease = store.claim(run_id, "w")
        assert lease is not None
        for word in words:
            kept = await artifacts.keep(run_id, word, _one(word.encode()), limit=100)
            store.add_artifact(lease, kept)
            digests[word] = kept.sha256
        store.finish(lease, RunStatus.SUCCESS)
    make_old(tmp_path / "artifacts")

    discard(store, ["run-1"], runs_dir=runs_dir, artifacts=artifacts)

    assert [path.name for path in runs_dir.iterdir()] == ["run-2"]
    assert sorted(artifacts.old()) == sorted([digests["shared"], digests["also mine"]])
    assert artifacts.open(digests["shared"], verify=True).read() == b"shared"


def test_many_runs_go_in_portions(store: Store, tmp_path: Path) -> None:
    runs = [f"run-{number}" for number in range(RUNS_AT_ONCE * 2 + 1)]
    for run_id in runs:
        store.add(NewRun(run_id, "name", {}))
        store.request_cancel(run_id)
    artifacts = ArtifactStore(str(tmp_path / "artifacts"), tmp_path / "spool")
    discard(store, runs, runs_dir=tmp_path / "runs", artifacts=artifacts)
    assert store.recent() == []


def rows_of(database: str, table: Table) -> set[str]:
    """The runs that a table has rows of."""
    engine = make_engine(database)
    try:
        with engine.connect() as connection:
            return set(connection.execute(select(table.c.run_id)).scalars())
    finally:
        engine.dispose()


def make_old(folder: Path) -> None:
    """Let everything in it have been stored long ago."""
    long_ago = now().timestamp() - REMOVE_AFTER - 60
    for path in folder.rglob("*"):
        os.utime(path, (long_ago, long_ago))


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content
