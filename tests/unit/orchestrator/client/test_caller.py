"""Paths, queries and bodies, and when to ask again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from orchestrator.client.caller import at, encoded, queried
from orchestrator.client.problems import retry_after
from orchestrator.client.retrying import LONGEST_WAIT, MAX_TRIES, MAX_WAITING, Tries, backoff
from orchestrator.errors import BadInput


def test_no_segment_leads_elsewhere() -> None:
    assert at("runs", "../keys", "a/b", "..", "?x#y", "é") == "/v1/runs/..%2Fkeys/a%2Fb/%2E%2E/%3Fx%23y/%C3%A9"
    assert httpx.URL("http://host" + at("runs", "..", ".")).raw_path == b"/v1/runs/%2E%2E/%2E"


def test_an_empty_id_is_refused() -> None:
    with pytest.raises(BadInput, match="must not be empty"):
        at("runs", "")


def test_a_query_has_what_is_given_only() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    params = {"status": ["a", "b"], "none": None, "nothing": [], "flag": True, "at": moment, "n": 3}

    assert queried(params) == (
        ("status", "a"),
        ("status", "b"),
        ("flag", "true"),
        ("at", "2026-01-02T00:00:00+00:00"),
        ("n", "3"),
    )


def test_a_body_has_what_is_given_only() -> None:
    assert encoded({"a": None, "b": {"c": None}}) == b'{"b": {"c": null}}'


def answer(value: str) -> httpx.Response:
    return httpx.Response(429, headers={"Retry-After": value} if value else {})


def test_a_server_says_in_seconds_or_by_a_date_when_to_ask_again() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)

    assert [retry_after(answer(value)) for value in ("7", "0", "-3", "", "soon")] == [7.0, 0.0, 0.0, None, None]
    assert 20 < (retry_after(answer(later)) or 0.0) <= 30


def test_a_request_is_tried_a_bounded_number_of_times() -> None:
    tries = Tries()
    waits = [tries.next_wait() for _ in range(MAX_TRIES)]

    assert waits[-1] is None
    assert all(wait is not None for wait in waits[:-1])


def test_who_asks_for_a_long_pause_is_not_waited_for() -> None:
    assert Tries().next_wait(MAX_WAITING + 1) is None
    assert Tries().next_wait(MAX_WAITING - 1) == MAX_WAITING - 1


def test_pauses_grow_to_a_bound_and_are_spread() -> None:
    chance = random.Random(1)
    longest = [max(backoff(failures, chance) for _ in range(200)) for failures in (1, 2, 3, 1000)]

    assert longest == sorted(longest)
    assert longest[-1] <= LONGEST_WAIT * 1.5
    assert len({backoff(3, chance) for _ in range(10)}) == 10
