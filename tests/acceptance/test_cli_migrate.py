"""The schema of the record is made, and brought up to date, by a command of its own."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import create_engine, text

from orchestrator.runs.schema import HEAD
from tests.acceptance.conftest import Fanfold


def test_the_schema_is_made_and_named_and_made_only_once(fanfold: Fanfold) -> None:
    first, again = fanfold("migrate"), fanfold("migrate")
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    assert first.stdout == again.stdout == f"sqlite:///{fanfold.home}/fanfold.db is at revision {HEAD}\n"


def test_a_record_of_a_newer_version_is_refused(fanfold: Fanfold, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/record.db"
    fanfold("migrate", FANFOLD_DATABASE_URL=url)
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'newer'"))
    engine.dispose()

    refused = fanfold("migrate", FANFOLD_DATABASE_URL=url)
    assert refused.returncode == 3
    assert "was made by a newer fanfold (revision newer); upgrade fanfold" in refused.stderr


def test_a_record_that_does_not_answer_is_told_without_its_password(fanfold: Fanfold) -> None:
    refused = fanfold("migrate", FANFOLD_DATABASE_URL="postgresql://me:hidden@127.0.0.1:1/none")
    assert refused.returncode == 3
    assert "cannot be used" in refused.stderr
    assert "hidden" not in refused.stderr
