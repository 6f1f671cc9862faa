"""Webhooks and their deliveries in the record, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from orchestrator.errors import Conflict, NotFound, StaleLease
from orchestrator.runs import service_tables as s
from orchestrator.runs.changing import end_runs
from orchestrator.runs.delivering import KEEP, PER_TENANT, PER_WEBHOOK, TAKEN_FOR, Busy, Deliveries, Taken
from orchestrator.runs.models import NewRun, RunError, RunStatus
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.runs.webhooks import MAX_WEBHOOKS, Webhook, Webhooks, new_webhook_id

IDLE = Busy({}, {})


@pytest.fixture
def webhooks(database: str, tmp_path: Path, clock: Any) -> Iterator[Webhooks]:
    opened = Webhooks(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


@pytest.fixture
def deliveries(database: str, tmp_path: Path, clock: Any) -> Iterator[Deliveries]:
    opened = Deliveries(open_database(database, tmp_path / "lock"), clock)
    yield opened
    opened.close()


@pytest.fixture
def webhook(webhooks: Webhooks, clock: Any) -> Callable[..., Webhook]:
    """Makes a webhook of the tenant `acme`."""

    def make(**changes: Any) -> Webhook:
        plain = Webhook(new_webhook_id(), "acme", "https://hooks.example.com/", ("run.finished",), True, clock())
        made = replace(plain, **changes)
        webhooks.add(made, "sealed")
        return made

    return make


def end(store: Store, run_id: str, tenant: str = "acme") -> None:
    store.add(NewRun(run_id, "name", {"command": "true"}, tenant=tenant, labels={"team": "a"}))
    store.abandon(run_id, RunError("input", "no such thing"))


def of(webhooks: Webhooks, webhook: Webhook) -> list[str | None]:
    """The runs of whose end a webhook is told."""
    return [delivery.run_id for delivery in webhooks.deliveries(webhook.id, 100, tenant=webhook.tenant)]


def test_another_tenants_webhook_is_not_there(webhooks: Webhooks, webhook: Callable[..., Webhook]) -> None:
    made = webhook()
    assert webhooks.get(made.id, tenant="acme") == made
    with pytest.raises(NotFound):
        webhooks.get(made.id, tenant="other")
    with pytest.raises(NotFound):
        webhooks.change(made.id, {"url": "https://evil.example.com/"}, tenant="other")
    with pytest.raises(NotFound):
        webhooks.remove(made.id, tenant="other")
    with pytest.raises(NotFound):
        webhooks.deliveries(made.id, 10, tenant="other")
    with pytest.raises(NotFound):
        webhooks.add_test(made.id, tenant="other")
    assert webhooks.page(10, tenant="other") == []
    assert webhooks.page(10, tenant="acme") == [made]


def test_a_tenant_has_no_more_webhooks_than_allowed(webhook: Callable[..., Webhook]) -> None:
    for _ in range(MAX_WEBHOOKS):
        webhook()
    with pytest.raises(Conflict, match=f"{MAX_WEBHOOKS} webhooks already"):
        webhook()
    webhook(tenant="other")


def test_the_end_of_a_run_is_noted_for_those_who_want_to_know(
    store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook]
) -> None:
    told = [webhook(), webhook(events=("run.interrupted", "run.finished"))]
    others = [webhook(events=("run.interrupted",)), webhook(enabled=False), webhook(tenant="other")]
    end(store, "run-1")
    assert [of(webhooks, one) for one in told] == [["run-1"], ["run-1"]]
    assert [of(webhooks, one) for one in others] == [[], [], []]


def test_a_run_is_told_as_it_was_when_it_ended(
    store: Store, webhook: Callable[..., Webhook], deliveries: Deliveries
) -> None:
    webhook()
    end(store, "run-1")
    store.forget(["run-1"])
    (taken,) = deliveries.take(8, IDLE)
    run = taken.payload["run"]
    assert (taken.payload["event"], taken.payload["at"]) == ("run.finished", run["finished_at"])
    assert taken.payload["data"] == {"status": "error", "error": {"kind": "input", "message": "no such thing"}}
    assert (run["id"], run["status"], run["exit_code"], run["labels"]) == ("run-1", "error", 2, {"team": "a"})
    assert run["error"] == {"kind": "input", "message": "no such thing"}
    assert run["task"] == {"command": "true"}
    assert run["created_at"].endswith("Z")


def test_what_is_undone_is_not_told(store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook]) -> None:
    made = webhook()
    store.add(NewRun("run-1", "name", {}, tenant="acme"))
    lease = store.claim("run-1", "w")
    assert lease is not None
    store.finish(lease, RunStatus.SUCCESS)
    with pytest.raises(StaleLease):
        store.finish(lease, RunStatus.ERROR)
    assert of(webhooks, made) == ["run-1"]


def test_a_tenant_without_webhooks_costs_one_question(store: Store, webhook: Callable[..., Webhook]) -> None:
    webhook(tenant="other")
    store.add(NewRun("run-1", "name", {}, tenant="acme"))
    asked: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    store.abandon("run-1", RunError("input", "x"))
    assert len([statement for statement in asked if "webhooks" in statement]) == 1
    assert not [statement for statement in asked if "deliveries" in statement]


def test_a_webhook_that_is_deleted_takes_its_deliveries_along(
    store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook], deliveries: Deliveries
) -> None:
    made = webhook()
    end(store, "run-1")
    webhooks.remove(made.id, tenant="acme")
    assert deliveries.take(8, IDLE) == []


def test_runs_end_while_webhooks_come_and_go(store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook]) -> None:
    def come_and_go(_: int) -> None:
        webhooks.remove(webhook().id, tenant="acme")

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(end, store, f"run-{number}") for number in range(40)]
        futures += [pool.submit(come_and_go, number) for number in range(40)]
        for future in futures:
            future.result()
    assert len(store.recent(RunStatus.ERROR, tenant="acme")) == 40


def test_what_is_taken_is_not_due_for_a_while(
    store: Store, webhook: Callable[..., Webhook], deliveries: Deliveries, clock: Any
) -> None:
    made = webhook()
    end(store, "run-1")
    (taken,) = deliveries.take(8, IDLE)
    assert (taken.webhook_id, taken.tenant, taken.url, taken.secret, taken.attempt) == (
        made.id, "acme", made.url, "sealed", 1
    )  # fmt: skip
    assert deliveries.take(8, IDLE) == []
    clock.advance(TAKEN_FOR + 1)
    (again,) = deliveries.take(8, IDLE)
    assert again == replace(taken, attempt=2)


def test_of_many_that_take_one_gets_it(store: Store, webhook: Callable[..., Webhook], deliveries: Deliveries) -> None:
    for number in range(5):
        webhook()
        end(store, f"run-{number}", tenant="acme")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: deliveries.take(2, IDLE), range(8)))
    taken = [one.id for some in found for one in some]
    assert len(taken) == len(set(taken)) > 0


def test_a_webhook_or_a_tenant_with_much_to_tell_leaves_room_for_others(
    store: Store, webhook: Callable[..., Webhook], deliveries: Deliveries
) -> None:
    many = [webhook() for _ in range(PER_TENANT)]
    for number in range(10):
        end(store, f"run-{number}")
    other = webhook(tenant="other")
    end(store, "run-other", tenant="other")
    taken = deliveries.take(8, IDLE)
    by_webhook = {one.id: sum(each.webhook_id == one.id for each in taken) for one in many}
    assert max(by_webhook.values()) <= PER_WEBHOOK
    assert sum(by_webhook.values()) == PER_TENANT
    assert [one.webhook_id for one in taken if one.tenant == "other"] == [other.id]


def test_what_is_under_way_counts(store: Store, webhook: Callable[..., Webhook], deliveries: Deliveries) -> None:
    made = webhook()
    end(store, "run-1")
    assert deliveries.take(8, Busy({made.id: PER_WEBHOOK}, {})) == []
    assert deliveries.take(8, Busy({}, {"acme": PER_TENANT})) == []
    assert len(deliveries.take(8, Busy({made.id: PER_WEBHOOK - 1}, {"acme": PER_TENANT - 1}))) == 1


def test_what_a_disabled_webhook_misses_is_sent_when_it_is_enabled(
    store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook], deliveries: Deliveries
) -> None:
    made = webhook()
    end(store, "run-1")
    webhooks.change(made.id, {"enabled": False}, tenant="acme")
    assert deliveries.take(8, IDLE) == []
    webhooks.change(made.id, {"enabled": True}, tenant="acme")
    assert len(deliveries.take(8, IDLE)) == 1


@pytest.fixture
def taken(store: Store, webhook: Callable[..., Webhook], deliveries: Deliveries) -> Taken:
    webhook()
    end(store, "run-1")
    return deliveries.take(8, IDLE)[0]


def test_what_was_delivered_never_is_again(deliveries: Deliveries, webhooks: Webhooks, taken: Taken, clock: Any) -> None:
    deliveries.delivered(taken, 204)
    clock.advance(86400)
    assert deliveries.take(8, IDLE) == []
    (found,) = webhooks.deliveries(taken.webhook_id, 10, tenant="acme")
    assert (found.status, found.answer, found.attempts, found.error, found.next_at) == ("delivered", 204, 1, None, None)


def test_what_was_put_off_comes_again_then(deliveries: Deliveries, webhooks: Webhooks, taken: Taken, clock: Any) -> None:
    deliveries.put_off(taken, 500, "it answered 500", 30.0)
    (found,) = webhooks.deliveries(taken.webhook_id, 10, tenant="acme")
    assert (found.status, found.answer, found.error) == ("waiting", 500, "it answered 500")
    clock.advance(29)
    assert deliveries.take(8, IDLE) == []
    clock.advance(2)
    assert deliveries.take(8, IDLE)[0].attempt == 2


def test_what_failed_for_good_stays_so(deliveries: Deliveries, webhooks: Webhooks, taken: Taken, clock: Any) -> None:
    deliveries.failed(taken, None, "nobody answers")
    clock.advance(86400)
    assert deliveries.take(8, IDLE) == []
    (found,) = webhooks.deliveries(taken.webhook_id, 10, tenant="acme")
    assert (found.status, found.answer, found.error) == ("failed", None, "nobody answers")


def test_who_was_too_slow_changes_nothing(deliveries: Deliveries, webhooks: Webhooks, taken: Taken, clock: Any) -> None:
    clock.advance(TAKEN_FOR + 1)
    deliveries.take(8, IDLE)
    deliveries.failed(taken, None, "too late")
    assert webhooks.deliveries(taken.webhook_id, 10, tenant="acme")[0].status == "waiting"


def test_deliveries_are_forgotten_after_a_week(
    store: Store, webhooks: Webhooks, deliveries: Deliveries, taken: Taken, clock: Any
) -> None:
    clock.advance(KEEP - 60)
    end(store, "run-2")
    assert deliveries.forget_old() == 0
    clock.advance(120)
    assert deliveries.forget_old() == 1
    assert [one.run_id for one in webhooks.deliveries(taken.webhook_id, 10, tenant="acme")] == ["run-2"]


def test_deliveries_are_listed_newest_first_in_pages(
    store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook], clock: Any
) -> None:
    made = webhook()
    for number in range(5):
        end(store, f"run-{number}")
        clock.advance(1)
    first = webhooks.deliveries(made.id, 3, tenant="acme")
    rest = webhooks.deliveries(made.id, 3, (first[-1].created_at, first[-1].id), tenant="acme")
    assert [one.run_id for one in first + rest] == [f"run-{number}" for number in (4, 3, 2, 1, 0)]
    assert first[0].created_at - rest[-1].created_at > timedelta(seconds=3)


def test_a_test_is_about_no_run(webhooks: Webhooks, webhook: Callable[..., Webhook], deliveries: Deliveries) -> None:
    made = webhook(events=("run.interrupted",))
    noted = webhooks.add_test(made.id, tenant="acme")
    (taken,) = deliveries.take(8, IDLE)
    assert (taken.id, noted.event, noted.run_id, taken.payload["run"]) == (noted.id, "webhook.test", None, None)


def test_a_disabled_webhook_cannot_be_tested(webhooks: Webhooks, webhook: Callable[..., Webhook]) -> None:
    with pytest.raises(Conflict, match="enable it first"):
        webhooks.add_test(webhook(enabled=False).id, tenant="acme")


def test_the_secret_is_in_the_record_as_it_was_sealed(webhooks: Webhooks, webhook: Callable[..., Webhook]) -> None:
    webhook()
    with webhooks._reading() as connection:
        assert connection.execute(select(s.webhooks.c.secret)).scalars().all() == ["sealed"]


def test_many_runs_that_end_at_once_are_all_told(
    store: Store, webhooks: Webhooks, webhook: Callable[..., Webhook]
) -> None:
    told = [webhook(), webhook(), webhook(tenant="other")]
    runs = [store.add(NewRun(f"run-{number}", "name", {}, tenant="acme")) for number in range(3)]
    runs.append(store.add(NewRun("run-other", "name", {}, tenant="other")))
    with store._writing() as connection:
        end_runs(connection, runs, RunStatus.CANCELLED, None, runs[0].created_at)
    mine = ["run-0", "run-1", "run-2"]
    assert [sorted(str(run) for run in of(webhooks, one)) for one in told] == [mine, mine, ["run-other"]]
