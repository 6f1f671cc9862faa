"""Which runs are nudged, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine

from orchestrator.controller.recover import AGAIN_FIRST, ON_ITS_WAY, STARVED, Recover
from orchestrator.errors import InfrastructureError
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.database import now
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store


class Scene:
    """A controller that looks when it is told to, at a clock that is moved by hand."""

    def __init__(self, engine: Engine) -> None:
        self.nudged: list[str] = []
        self.queue_is_empty = True
        self.broker_is_there = True
        self._ahead = 0.0
        record = ControlRecord(engine, lambda: now() + timedelta(seconds=self._ahead))
        self._recover = Recover(record, self._nudge, lambda: self.queue_is_empty, clock=lambda: self._ahead)

    def _nudge(self, run_id: str) -> None:
        if not self.broker_is_there:
            raise InfrastructureError("the broker does not answer")
        self.nudged.append(run_id)

    def look(self, *, after: float = 0.0) -> list[str]:
        self._ahead += after
        self.nudged.clear()
        self._recover.look()
        return list(self.nudged)


@pytest.fixture
def scene(store: Store, database: str, tmp_path: Path) -> Iterator[Scene]:
    engine = open_database(database, tmp_path / "lock")
    yield Scene(engine)
    engine.dispose()


def test_a_run_whose_worker_has_died_is_nudged_as_soon_as_its_lease_has_run_out(store: Store, scene: Scene) -> None:
    store.add(NewRun("run-a", "name", {}))
    store.claim("run-a", "w1")
    assert scene.look() == []
    assert scene.look(after=LEASE_TTL - 1) == []
    assert scene.look(after=1.5) == ["run-a"]


def test_a_run_that_still_waits_is_nudged_less_and_less_often(store: Store, scene: Scene) -> None:
    store.add(NewRun("run-a", "name", {}))
    store.claim("run-a", "w1")
    assert scene.look(after=LEASE_TTL + 1) == ["run-a"]
    assert scene.look(after=AGAIN_FIRST / 2) == []
    assert scene.look(after=AGAIN_FIRST) == ["run-a"]
    assert scene.look(after=AGAIN_FIRST * 1.5) == []
    assert scene.look(after=AGAIN_FIRST) == ["run-a"]


def test_a_new_run_is_left_to_its_own_nudge_at_first(store: Store, scene: Scene) -> None:
    store.add(NewRun("run-a", "name", {}))
    assert scene.look() == []
    assert scene.look(after=ON_ITS_WAY + 0.5) == ["run-a"]


def test_runs_that_are_on_the_queue_are_left_there_until_they_have_waited_for_very_long(store: Store, scene: Scene) -> None:
    store.add(NewRun("run-a", "name", {}))
    scene.queue_is_empty = False
    assert scene.look(after=ON_ITS_WAY + 0.5) == []
    assert scene.look(after=STARVED) == ["run-a"]


def test_a_nudge_that_did_not_arrive_is_sent_again_at_once(store: Store, scene: Scene) -> None:
    store.add(NewRun("run-a", "name", {}))
    scene.broker_is_there = False
    with pytest.raises(InfrastructureError):
        scene.look(after=ON_ITS_WAY + 0.5)
    scene.broker_is_there = True
    assert scene.look() == ["run-a"]
