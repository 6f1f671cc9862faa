"""Submitting what is due by schedules, on both databases: once for each time, whoever leads and whoever dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.controller.schedule import FireSchedules, Submit, key_of
from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.idempotency import Idempotency
from orchestrator.runs.models import NewRun, Run
from orchestrator.runs.schedules import Overlap, Schedule, Schedules
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store, new_run_id
from orchestrator.service.once import Once, digest_of
from orchestrator.timetable import Timetable
from tests.unit.orchestrator.runs.test_schedules import a_schedule, schedules

__all__ = ["schedules"]

LEADERS = 4


@pytest.fixture
def submit(store: Store, database: str, tmp_path: Path) -> Iterator[Submit]:
    """Records runs, the same one for the same key."""
    keys = Idempotency(open_database(database, tmp_path / "lock"), tmp_path / "keys")

    def add(run_id: str, tenant: str) -> Run:
        return store.add(NewRun(run_id, "scheduled", {}, tenant=tenant))

    def submit_once(tenant: str, order: dict[str, Any], key: str) -> str:
        once = Once(keys, tenant)
        made = once.do(
            key, digest_of("schedule", order), new_id=new_run_id, find=store.get, make=lambda run_id: add(run_id, tenant)
        )
        return made.id

    yield submit_once
    keys.close()


@pytest.fixture
def due(schedules: Schedules, clock: Any) -> Callable[..., Schedule]:
    """Makes a schedule of every minute that is due."""

    def make(**changes: Any) -> Schedule:
        table = Timetable.of("* * * * *", "UTC")
        made = a_schedule(clock(), cron="* * * * *", timezone="UTC", next_at=table.after(clock()), **changes)
        schedules.add(made)
        clock.advance(60)
        return made

    return make


def runs(store: Store) -> list[str]:
    return [run.id for run in store.recent(tenant="acme")]


def test_what_is_due_is_submitted_once(store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any) -> None:
    made = due()
    fire = FireSchedules(schedules, submit, clock=clock)
    for _ in range(3):
        fire.look()
    found = schedules.get(made.id, tenant="acme")
    assert runs(store) == [found.last_run_id]
    assert found.last_error is None
    assert found.next_at is not None
    assert timedelta() < found.next_at - clock() <= timedelta(minutes=1)


def test_each_time_has_a_run_of_its_own(store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any) -> None:
    due(overlap=Overlap.ALLOW)
    fire = FireSchedules(schedules, submit, clock=clock)
    for _ in range(3):
        fire.look()
        clock.advance(60)
    assert len(set(runs(store))) == 3


def test_times_that_nobody_was_there_for_have_one_run(
    store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any
) -> None:
    made = due(overlap=Overlap.ALLOW)
    clock.advance(3600)
    for _ in range(3):
        FireSchedules(schedules, submit, clock=clock).look()
    assert len(runs(store)) == 1
    next_at = schedules.get(made.id, tenant="acme").next_at
    assert next_at is not None
    assert next_at > clock()


def test_leaders_that_race_submit_once(store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any) -> None:
    made = [due(overlap=Overlap.ALLOW) for _ in range(3)]
    leaders = [FireSchedules(schedules, submit, clock=clock) for _ in range(LEADERS)]
    with ThreadPoolExecutor(LEADERS) as pool:
        for future in [pool.submit(leader.look) for leader in leaders * 3]:
            future.result()
    assert len(runs(store)) == len(made)
    assert set(runs(store)) == {schedules.get(one.id, tenant="acme").last_run_id for one in made}


def test_a_leader_that_dies_after_submitting_is_made_up_for_by_the_run_that_there_is(
    store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any
) -> None:
    made = due()
    by_the_dead = submit("acme", made.order, key_of(made))
    FireSchedules(schedules, submit, clock=clock).look()
    assert runs(store) == [by_the_dead]
    assert schedules.get(made.id, tenant="acme").last_run_id == by_the_dead


def test_a_time_is_left_out_while_the_last_run_goes_on(
    store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any
) -> None:
    made = due()
    fire = FireSchedules(schedules, submit, clock=clock)
    fire.look()
    first = schedules.get(made.id, tenant="acme").last_run_id
    clock.advance(60)
    fire.look()
    found = schedules.get(made.id, tenant="acme")
    assert (runs(store), found.last_run_id) == ([first], first)
    assert found.last_error == f"left out: run {first} had not ended, and the schedule's overlap is 'skip'"
    assert first is not None
    store.request_cancel(first)
    clock.advance(60)
    fire.look()
    assert len(runs(store)) == 2
    assert schedules.get(made.id, tenant="acme").last_error is None


def test_an_order_that_is_refused_is_told_and_comes_again_the_next_time(
    schedules: Schedules, submit: Submit, due: Any, clock: Any
) -> None:
    made, asked = due(), []

    def refuse(tenant: str, order: dict[str, Any], key: str) -> str:
        asked.append(key)
        raise BadInput("there is no such model")

    fire = FireSchedules(schedules, refuse, clock=clock)
    fire.look()
    fire.look()
    found = schedules.get(made.id, tenant="acme")
    assert (found.last_error, found.last_run_id, asked) == ("there is no such model", None, [key_of(made)])
    assert found.next_at is not None
    assert found.next_at > clock()


def test_while_runs_cannot_be_submitted_the_schedule_stays_due_and_others_are_tried(
    store: Store, schedules: Schedules, submit: Submit, due: Any, clock: Any
) -> None:
    stuck, fine = due(overlap=Overlap.ALLOW), due(overlap=Overlap.ALLOW)

    def submit_one(tenant: str, order: dict[str, Any], key: str) -> str:
        if stuck.id in key:
            raise InfrastructureError("the disk is full")
        return submit(tenant, order, key)

    with pytest.raises(InfrastructureError, match="the disk is full"):
        FireSchedules(schedules, submit_one, clock=clock).look()
    assert schedules.get(stuck.id, tenant="acme") == stuck
    assert runs(store) == [schedules.get(fine.id, tenant="acme").last_run_id]
    FireSchedules(schedules, submit, clock=clock).look()
    assert len(runs(store)) == 2


def test_a_schedule_that_is_changed_meanwhile_keeps_its_new_time(
    schedules: Schedules, submit: Submit, due: Any, clock: Any
) -> None:
    made, new = due(), clock() + timedelta(days=1)

    def change_first(tenant: str, order: dict[str, Any], key: str) -> str:
        schedules.change(made.id, {"next_at": new}, tenant="acme")
        return submit(tenant, order, key)

    FireSchedules(schedules, change_first, clock=clock).look()
    assert schedules.get(made.id, tenant="acme").next_at == new
