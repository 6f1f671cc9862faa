"""Who follows a run and leaves, leaves nothing behind; and following is fair to the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from orchestrator.api import following
from orchestrator.service import Service
from tests.served import Api

STREAM = {"Accept": "text/event-stream"}
THREADS = 40
"""Calls that the server's event loop makes at once in threads, anyio's own number."""


@pytest.fixture
def waiting(client: httpx.Client) -> Any:
    """A run that no worker begins."""
    run = client.post("/v1/runs", json={"task": {"command": "true"}}).json()
    yield run
    client.post(f"/v1/runs/{run['id']}/cancel")


def test_followers_that_leave_are_forgotten(
    api: Api, waiting: dict[str, Any], until: Callable[[Callable[[], object], str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: set[str] = set()
    events_after = Service.events_after

    def counted(self: Service, run_id: str, after: int = 0, limit: int = 0) -> Any:
        looks.add(run_id)
        return events_after(self, run_id, after, limit)

    monkeypatch.setattr(Service, "events_after", counted)
    before = threading.active_count()
    with ExitStack() as streams:
        for _ in range(10):
            client = api.client()
            streams.enter_context(client.stream("GET", f"/v1/runs/{waiting['id']}/events", headers=STREAM))
        until(lambda: looks, "the record is looked at")

    def quiet() -> bool:
        looks.clear()
        return not threading.Event().wait(2 * following.LAST_POLL) and not looks

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
