"""Who follows a run and leaves, leaves nothing behind; and following is fair to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from orchestrator.api import heads
from orchestrator.service import Service
from tests.served import Api, serving

STREAM = {"Accept": "text/event-stream"}
THREADS = 40
"""Calls that the server's event loop makes at once in threads, anyio's own number."""
FEW = 10


@dataclass
class Asked:
    """What was asked of the record."""

    heads: list[set[str]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def forget(self) -> None:
        self.heads.clear()
        self.events.clear()


@pytest.fixture
def waiting(client: httpx.Client) -> Any:
    """A run that no worker begins."""
    run = client.post("/v1/runs", json={"task": {"command": "true"}}).json()
    yield run
    client.post(f"/v1/runs/{run['id']}/cancel")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the server asks of the record from now on for those who follow."""
    counted = Asked()
    look, events_after = Service.heads, Service.events_after

    def counted_heads(self: Service, run_ids: Collection[str]) -> Any:
        counted.heads.append(set(run_ids))
        return look(self, run_ids)

    def counted_events(self: Service, run_id: str, after: int = 0, limit: int = 0) -> Any:
        counted.events.append(run_id)
        return events_after(self, run_id, after, limit)

    monkeypatch.setattr(Service, "heads", counted_heads)
    monkeypatch.setattr(Service, "events_after", counted_events)
    return counted


def test_followers_share_their_looks_and_are_forgotten_when_they_leave(
    service: Service, waiting: dict[str, Any], until: Callable[[Callable[[], object], str], None], asked: Asked
) -> None:
    with serving(service) as api:
        before = threading.active_count()
        with ExitStack() as streams:
            for _ in range(FEW):
                client = api.client()
                streams.enter_context(client.stream("GET", f"/v1/runs/{waiting['id']}/events", headers=STREAM))
            until(lambda: len(asked.events) >= FEW and {waiting["id"]} in asked.heads, "all of them have begun")

            def alone() -> bool:
                asked.forget()
                threading.Event().wait(4 * heads.LAST_POLL)
                return not asked.events and 0 < len(asked.heads) < FEW

            until(alone, "while nothing happens, the record is looked at for all of them together")

        def quiet() -> bool:
            asked.forget()
            return not threading.Event().wait(2 * heads.LAST_POLL) and not asked.heads

        until(quiet, "nobody looks at the record for the followers that left")
        assert threading.active_count() <= before + THREADS


def test_many_followers_do_not_keep_others_waiting(api: Api, waiting: dict[str, Any], client: httpx.Client) -> None:
    """More of them than there are threads: what they wait for must not be waited for in a thread."""
    with ExitStack() as streams:
        for _ in range(THREADS + 10):
            streams.enter_context(api.client().stream("GET", f"/v1/runs/{waiting['id']}/events", headers=STREAM))
        assert client.get(f"/v1/runs/{waiting['id']}").status_code == 200
        cancelled = client.post(f"/v1/runs/{waiting['id']}/cancel")
        assert cancelled.json()["status"] == "cancelled"


def test_a_long_poll_without_news_ends_when_it_was_told_to(client: httpx.Client, waiting: dict[str, Any]) -> None:
    answer = client.get(f"/v1/runs/{waiting['id']}/events", params={"wait": 0.2})
    assert answer.json() == {"items": [], "ended": False}
    assert client.get(f"/v1/runs/{waiting['id']}/join", params={"timeout": 0.2}).status_code == 202
