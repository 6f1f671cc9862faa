"""Sending what was noted for webhooks, to real servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrator.controller.deliver import AGAIN_FIRST, AGAIN_LATEST, JITTER, MAX_ATTEMPTS, Deliver, pause_after
from orchestrator.controller.posting import Poster
from orchestrator.errors import InfrastructureError
from orchestrator.runs.delivering import PER_WEBHOOK, TAKEN_FOR, Deliveries
from orchestrator.runs.models import NewRun, RunError
from orchestrator.runs.outbox import run_as_told
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.runs.webhooks import Delivery, Webhook, Webhooks, new_webhook_id
from orchestrator.signature import verify
from tests.unit.orchestrator.controller.receiver import Receiver, receiving, status
from tests.unit.orchestrator.runs.conftest import Clock

SECRET = "whsec_of-a-test-0123456789"
DAY = 86400.0

Until = Callable[[Callable[[], object]], None]


class Setting:
    """A record with webhooks, and what sends to them."""

    def __init__(self, store: Store, database: str, lock: Path) -> None:
        self.clock = Clock()
        self.store = store
        self.deliveries = Deliveries(open_database(database, lock), self.clock)
        self.webhooks = Webhooks(open_database(database, lock), self.clock)
        poster = Poster(allow_private=True)
        self.deliver = Deliver(self.deliveries, poster.post, lambda sealed: sealed.removeprefix("sealed "))

    def webhook(self, url: str, tenant: str = "default") -> str:
        made = Webhook(new_webhook_id(), tenant, url, ("run.finished",), True, self.clock())
        self.webhooks.add(made, f"sealed {SECRET}")
        return made.id

    def end_run(self, run_id: str, tenant: str = "default") -> None:
        self.store.add(NewRun(run_id, "name", {"command": "true"}, tenant=tenant))
        self.store.abandon(run_id, RunError("input", "no such thing"))

    def of(self, webhook_id: str, tenant: str = "default") -> list[Delivery]:
        return self.webhooks.deliveries(webhook_id, 100, tenant=tenant)


@pytest.fixture
def setting(store: Store, database: str, tmp_path: Path) -> Iterator[Setting]:
    made = Setting(store, database, tmp_path / "lock")
    yield made
    made.deliveries.close()
    made.webhooks.close()


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    """`receiving`, until the test ends."""
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(receiving(*given))


def test_the_end_of_a_run_is_told_and_signed(setting: Setting, receive: Any, until: Until) -> None:
    receiver = receive()
    webhook = setting.webhook(receiver.url)
    setting.end_run("run-1")
    setting.deliver.look()
    until(lambda: setting.of(webhook)[0].status == "delivered")
    (came,) = receiver.received
    told = verify(came.body, came.headers["Fanfold-Signature"], SECRET)
    (delivery,) = setting.of(webhook)
    assert (delivery.attempts, delivery.answer, delivery.error) == (1, 204, None)
    assert came.headers["Fanfold-Delivery"] == told["id"] == delivery.id
    assert came.headers["Fanfold-Event"] == told["event"] == "run.finished"
    assert came.headers["Content-Type"] == "application/json"
    assert told["run"] == json.loads(json.dumps(run_as_told(setting.store.get("run-1"))))
    assert told["at"] == told["run"]["finished_at"]
    assert told["data"]["status"] == "error"


def test_what_is_not_taken_comes_again_until_it_is(setting: Setting, receive: Any, until: Until) -> None:
    receiver = receive(status(500, 503, 200))
    webhook = setting.webhook(receiver.url)
    setting.end_run("run-1")
    for attempt in (1, 2, 3):
        setting.deliver.look()
        until(lambda number=attempt: setting.of(webhook)[0].answer == (500, 503, 200)[number - 1])
        setting.deliver.look()
        setting.clock.advance(AGAIN_LATEST * 2)
    (delivery,) = setting.of(webhook)
    assert (delivery.status, delivery.attempts, delivery.error) == ("delivered", 3, None)
    assert len({came.headers["Fanfold-Delivery"] for came in receiver.received}) == 1
    assert len(receiver.received) == 3


def test_after_the_last_attempt_it_is_given_up(setting: Setting, receive: Any, until: Until) -> None:
    receiver = receive(status(500))
    webhook = setting.webhook(receiver.url)
    setting.end_run("run-1")
    for attempt in range(1, MAX_ATTEMPTS + 1):
        setting.deliver.look()
        until(lambda number=attempt: setting.of(webhook)[0].attempts == number and setting.of(webhook)[0].error)
        until(lambda: not setting.deliver._under_way)
        setting.clock.advance(AGAIN_LATEST * 2)
    setting.deliver.look()
    (delivery,) = setting.of(webhook)
    assert (delivery.status, delivery.error, delivery.next_at) == ("failed", "it answered 500", None)
    assert len(receiver.received) == MAX_ATTEMPTS


def test_a_slow_receiver_holds_up_nobody_else(setting: Setting, receive: Any, until: Until) -> None:
    release = threading.Event()
    slow = receive(lambda handler, number: release.wait(30) and status(204)(handler, number))
    quick = receive()
    webhooks = [setting.webhook(slow.url), setting.webhook(quick.url)]
    for number in range(20):
        setting.end_run(f"run-{number}")
    until(lambda: (setting.deliver.look(), len(quick.received) == 20)[1])
    assert len(slow.received) == PER_WEBHOOK
    release.set()
    until(lambda: (setting.deliver.look(), all(one.status == "delivered" for each in webhooks for one in setting.of(each)))[1])
    assert len(slow.received) == 20


def test_one_look_sends_more_than_fits_at_once(setting: Setting, receive: Any, until: Until) -> None:
    receiver = receive()
    webhook = setting.webhook(receiver.url)
    for number in range(30):
        setting.end_run(f"run-{number}")
    until(lambda: (setting.deliver.look(), all(one.status == "delivered" for one in setting.of(webhook)))[1])
    assert sorted(json.loads(came.body)["run"]["id"] for came in receiver.received) == sorted(
        f"run-{number}" for number in range(30)
    )


def test_what_a_dead_sender_had_taken_is_sent_by_the_next_one(setting: Setting, receive: Any, until: Until) -> None:
    receiver = receive()
    webhook = setting.webhook(receiver.url)
    setting.end_run("run-1")

    def die(sealed: str) -> str:
        raise InfrastructureError("the key is gone")

    Deliver(setting.deliveries, Poster(allow_private=True).post, die).look()
    assert [one.attempts for one in setting.of(webhook)] == [1]
    setting.deliver.look()
    assert receiver.received == []
    setting.clock.advance(TAKEN_FOR + 1)
    setting.deliver.look()
    until(lambda: setting.of(webhook)[0].status == "delivered")
    assert len(receiver.received) == 1


def test_a_webhook_that_leads_into_the_own_network_is_told_so(setting: Setting, receive: Any, until: Until) -> None:
    receiver = receive()
    webhook = setting.webhook(f"https://127.1:{receiver.port}/")
    setting.end_run("run-1")
    poster = Poster(allow_private=False)
    Deliver(setting.deliveries, poster.post, lambda sealed: sealed).look()
    until(lambda: setting.of(webhook)[0].error)
    (delivery,) = setting.of(webhook)
    assert delivery.status == "waiting"
    assert "not public" in (delivery.error or "")
    assert receiver.received == []


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_pauses_grow_and_all_attempts_are_within_a_day(chance: float) -> None:
    pauses = [pause_after(attempt, lambda: chance) for attempt in range(1, MAX_ATTEMPTS)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(AGAIN_FIRST * (1 - JITTER + 2 * JITTER * chance))
    assert DAY / 2 < sum(pauses) < DAY
