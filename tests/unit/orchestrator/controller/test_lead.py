"""Who leads knows it, and knows when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from orchestrator.controller.lead import LEAD_TTL, Leadership
from orchestrator.errors import InfrastructureError
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.database import now
from orchestrator.runs.engine import WRITE
from orchestrator.runs.schema import open_database


class World:
    """Controllers over one record, at a clock that is moved by hand."""

    def __init__(self, engine: Engine) -> None:
        self.ahead = 0.0
        self.engine = engine
        self.record = ControlRecord(engine, lambda: now() + timedelta(seconds=self.ahead))

    def controller(self, name: str) -> Leadership:
        return Leadership(self.record, name, clock=lambda: self.ahead)


@pytest.fixture
def world(database: str, tmp_path: Path) -> Iterator[World]:
    made = World(open_database(database, tmp_path / "lock"))
    yield made
    made.record.close()


def test_nobody_leads_before_the_record_says_so(world: World) -> None:
    assert not world.controller("a").held


def test_one_leads_and_only_its_work_is_done(world: World) -> None:
    done: list[str] = []
    for name in ("a", "b"):
        controller = world.controller(name)
        controller.renew()
        controller.led(lambda name=name: done.append(name))()
    assert done == ["a"]


def test_a_leader_that_cannot_renew_stops_leading_before_another_one_begins(world: World) -> None:
    first, second = world.controller("a"), world.controller("b")
    first.renew()
    world.ahead = LEAD_TTL - 0.5
    second.renew()
    assert (first.held, second.held) == (True, False)
    world.ahead = LEAD_TTL + 0.5
    assert not first.held
    second.renew()
    first.renew()
    assert (first.held, second.held) == (False, True)


def test_who_resigns_leads_no_more_and_another_one_can_at_once(world: World) -> None:
    first, second = world.controller("a"), world.controller("b")
    first.renew()
    first.resign()
    second.renew()
    assert (first.held, second.held) == (False, True)
    first.resign()
    second.renew()
    assert second.held


def test_without_the_record_the_time_runs_out(world: World) -> None:
    leader = world.controller("a")
    leader.renew()
    with world.engine.connect().execution_options(**WRITE) as connection, connection.begin():
        connection.execute(text("DROP TABLE installation"))
    with pytest.raises(InfrastructureError):
        leader.renew()
    assert leader.held
    world.ahead = LEAD_TTL
    assert not leader.held
