"""Schedules in the record, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Conflict, NotFound
from orchestrator.runs import schedules as module
from orchestrator.runs.models import NewRun
from orchestrator.runs.schedules import Overlap, Schedule, Schedules, new_schedule_id
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store


@pytest.fixture
def schedules(database: str, tmp_path: Path, clock: Any) -> Iterator[Schedules]:
    opened = Schedules(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


def a_schedule(moment: datetime, **changes: Any) -> Schedule:
    made = Schedule(
        id=new_schedule_id(),
        tenant="acme",
        name="nightly",
        cron="30 2 * * *",
        timezone="Europe/Berlin",
        order={"task": {"command": "true"}},
        overlap=Overlap.SKIP,
        enabled=True,
        created_at=moment,
        next_at=moment + timedelta(seconds=60),
    )
    return replace(made, **changes)


def test_a_schedule_is_kept_as_it_is(schedules: Schedules, clock: Any) -> None:
    made = a_schedule(clock())
    schedules.add(made)
    assert schedules.get(made.id, tenant="acme") == made


def test_another_tenants_schedule_is_not_there(schedules: Schedules, clock: Any) -> None:
    made = a_schedule(clock())
    schedules.add(made)
    with pytest.raises(NotFound, match=made.id):
        schedules.get(made.id, tenant="other")
    with pytest.raises(NotFound):
        schedules.change(made.id, {"name": "theirs"}, tenant="other")
    with pytest.raises(NotFound):
        schedules.remove(made.id, tenant="other")
    assert schedules.page(10, tenant="other") == []
    assert schedules.get(made.id, tenant="acme") == made


def test_schedules_are_listed_newest_first_in_pages(schedules: Schedules, clock: Any) -> None:
    made = [a_schedule(clock() + timedelta(seconds=n // 2)) for n in range(5)]
    for one in made:
        schedules.add(one)
    first = schedules.page(3, tenant="acme")
    rest = schedules.page(3, (first[-1].created_at, first[-1].id), tenant="acme")
    newest_first = sorted(made, key=lambda one: (one.created_at, one.id), reverse=True)
    assert first + rest == newest_first


def test_a_schedule_can_be_changed_and_deleted(schedules: Schedules, clock: Any) -> None:
    made = a_schedule(clock())
    schedules.add(made)
    assert schedules.change(made.id, {"enabled": False, "next_at": None}, tenant="acme") == replace(
        made, enabled=False, next_at=None
    )
    schedules.remove(made.id, tenant="acme")
    assert schedules.page(10, tenant="acme") == []


def test_a_tenant_has_no_more_schedules_than_allowed(
    schedules: Schedules, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SCHEDULES", 1)
    schedules.add(a_schedule(clock()))
    with pytest.raises(Conflict, match="1 schedules already"):
        schedules.add(a_schedule(clock()))
    schedules.add(a_schedule(clock(), tenant="other"))


def test_only_what_is_enabled_and_whose_time_has_come_is_due(schedules: Schedules, clock: Any) -> None:
    early, late = a_schedule(clock()), a_schedule(clock() + timedelta(seconds=3600))
    for one in (late, early, a_schedule(clock(), enabled=False), a_schedule(clock(), next_at=None)):
        schedules.add(one)
    assert schedules.due() == []
    clock.advance(61)
    assert schedules.due() == [early]
    clock.advance(3600)
    assert schedules.due() == [early, late]


def test_of_two_that_note_the_same_time_one_does(schedules: Schedules, clock: Any) -> None:
    made = a_schedule(clock())
    schedules.add(made)
    later = made.next_at + timedelta(days=1) if made.next_at else None
    assert schedules.came(made, later, run_id="run-1", error=None)
    assert not schedules.came(made, later, run_id="run-2", error="too late")
    found = schedules.get(made.id, tenant="acme")
    assert (found.last_run_id, found.last_error, found.next_at) == ("run-1", None, later)
    assert found.last_at is not None


def test_an_error_is_kept_beside_the_run_before_it(schedules: Schedules, clock: Any) -> None:
    made = a_schedule(clock(), last_run_id="run-1")
    schedules.add(made)
    assert schedules.came(made, None, run_id=None, error="no such model")
    found = schedules.get(made.id, tenant="acme")
    assert (found.last_run_id, found.last_error) == ("run-1", "no such model")


def test_a_run_goes_on_until_it_has_ended(schedules: Schedules, store: Store) -> None:
    store.add(NewRun("run-1", "name", {}, tenant="acme"))
    assert schedules.goes_on("run-1", tenant="acme")
    assert not schedules.goes_on("run-1", tenant="other")
    store.request_cancel("run-1")
    assert not schedules.goes_on("run-1", tenant="acme")
    assert not schedules.goes_on("run-2", tenant="acme")
