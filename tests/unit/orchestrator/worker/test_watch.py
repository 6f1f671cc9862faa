"""Whoever works on a run learns in time that it has to stop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from sqlalchemy import text

from orchestrator.errors import RunCancelled, StaleLease
from orchestrator.runs.engine import WRITE
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import Lease, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.worker.watch import Pulse, Watch

DEADLINE = 30.0
"""Seconds for a watch to notice."""


async def reason(watch: Watch) -> Exception:
    try:
        return await asyncio.wait_for(asyncio.shield(watch.stopped), DEADLINE)
    finally:
        watch.close()


async def test_a_cancelled_run_stops(store: Store, lease: Lease) -> None:
    watch = Pulse(store).watch(lease)
    store.request_cancel("run-a")
    assert isinstance(await reason(watch), RunCancelled)


async def test_a_run_that_ended_elsewhere_stops(store: Store, lease: Lease) -> None:
    store.finish(lease, RunStatus.SUCCESS)
    assert isinstance(await reason(Pulse(store).watch(lease)), StaleLease)


async def test_a_busy_event_loop_keeps_no_heartbeat_waiting(store: Store, lease: Lease) -> None:
    watch = Pulse(store).watch(lease)
    claimed, late = store.get("run-a").heartbeat_at, time.monotonic() + DEADLINE
    while store.get("run-a").heartbeat_at == claimed:  # nothing here lets the loop go on
        assert time.monotonic() < late
    watch.close()


async def test_without_the_record_for_as_long_as_a_lease_the_run_is_left_to_another_worker(
    store: Store, lease: Lease, database: str, tmp_path: Path
) -> None:
    ahead = 0.0
    watch = Pulse(store, clock=lambda: ahead).watch(lease)
    engine = open_database(database, tmp_path / "lock")
    with engine.connect().execution_options(**WRITE) as connection, connection.begin():
        connection.execute(text("ALTER TABLE runs RENAME TO away"))
    engine.dispose()
    assert not watch.stopped.done()
    ahead = LEASE_TTL + 1
    stopped = await reason(watch)
    assert isinstance(stopped, StaleLease)
    assert "no heartbeat reached the record" in str(stopped)
