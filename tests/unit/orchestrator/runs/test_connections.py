"""A database server that goes away is an error of the calls in between, and of no call afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from orchestrator.errors import InfrastructureError
from orchestrator.runs.models import NewEvent, NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store, now
from tests.services import PostgresServer, postgres_server

CUT_OFF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def test_a_call_after_connections_were_cut_works(postgres: PostgresServer, tmp_path: Path) -> None:
    with postgres.fresh_database() as url:
        store = Store(open_database(url.render_as_string(), tmp_path / "lock"))
        store.add(NewRun("run-a", "name", {}))
        other = create_engine(url)
        with other.connect() as connection:
            connection.execute(text(CUT_OFF))
        other.dispose()
        assert store.claim("run-a", "w") is not None
        store.close()


def test_a_server_that_was_away_is_used_again(tmp_path: Path) -> None:
    with postgres_server() as server:
        store = Store(open_database(server.url().render_as_string(), tmp_path / "lock"))
        store.add(NewRun("run-a", "name", {}))
        lease = store.claim("run-a", "w")
        assert lease is not None
        server.stop()
        for call in (lambda: store.get("run-a"), lambda: store.append(lease, [NewEvent("log", {}, now())])):
            with pytest.raises(InfrastructureError, match="the record cannot be read or written"):
                call()
        server.start()
        store.append(lease, [NewEvent("log", {"text": "after"}, now())])
        assert [event.data for event in store.events("run-a")] == [{"text": "after"}]
        store.close()
