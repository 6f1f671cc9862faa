"""Whole runs with their record in PostgreSQL: the same worker, the same door, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import InfrastructureError
from orchestrator.runs.models import AttemptStatus, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.service import Service
from orchestrator.spec import RunSpec
from tests.services import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture(scope="module")
def service(new_home, server: PostgresServer) -> Iterator[Service]:
    with server.fresh_database() as url:
        address = url.render_as_string().replace("postgresql+psycopg", "postgresql")
        with new_home(DATABASE_URL=address) as settings, Service(settings) as opened:
            yield opened


def ended(service: Service, base: Path, task: dict[str, object]) -> str:
    """Run it to its end; its id."""
    run = service.submit(RunSpec.model_validate(task), base_dir=base)
    service.ensure_worker()
    assert list(service.follow(run.id))[-1].type == "run.finished"
    return run.id


def test_a_run_succeeds_and_its_events_are_in_order(service: Service, tmp_path: Path) -> None:
    run_id = ended(service, tmp_path, {"command": "seq 2000; echo made > made.txt", "outputs": {"files": ["*.txt"]}})
    assert service.get(run_id).status is RunStatus.SUCCESS
    events = list(service.events(run_id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    printed = "".join(event.data["text"] for event in events if event.type == "command.output")
    assert printed.split() == [str(number) for number in range(1, 2001)]
    assert [artifact.name for artifact in service.artifacts(run_id)] == ["files/made.txt"]


def test_each_attempt_has_its_own_sandbox_and_reason(service: Service, tmp_path: Path) -> None:
    run_id = ended(service, tmp_path, {"command": "exit 3", "retries": 1})
    first, second = service.attempts(run_id)
    assert [first.status, second.status] == [AttemptStatus.ERROR, AttemptStatus.ERROR]
    assert first.error is not None
    assert "exit code 3" in first.error.message
    assert first.provider == second.provider == "local"
    assert first.sandbox_id != second.sandbox_id


def test_what_was_pruned_is_gone(service: Service, tmp_path: Path) -> None:
    run_id = ended(service, tmp_path, {"command": "true"})
    assert run_id in service.prune(keep=0)
    assert service.list() == []


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused(server: PostgresServer, tmp_path: Path, encoding: str) -> None:
    said = f"{encoding}.*needs UTF8: make it with"
    with server.fresh_database(encoding) as url, pytest.raises(InfrastructureError, match=said):
        open_database(url.render_as_string(hide_password=False), tmp_path / "lock")
