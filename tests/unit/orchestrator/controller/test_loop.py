"""A loop goes on whatever happens, and does not fill the log."""

from __future__ import annotations

import logging
import threading

import pytest

from orchestrator.controller.loop import STOP_TIMEOUT, Loop
from orchestrator.errors import InfrastructureError


def test_a_loop_works_again_and_again_until_it_is_stopped(until) -> None:
    rounds: list[str] = []
    loop = Loop("count", lambda: rounds.append(threading.current_thread().name), seconds=0.001, slowest=0.001)
    loop.start()
    until(lambda: len(rounds) > 3)
    loop.stop()
    assert set(rounds) == {"count"}
    assert "count" not in {thread.name for thread in threading.enumerate()}


def test_a_loop_that_was_never_started_can_be_stopped() -> None:
    Loop("idle", lambda: None, seconds=1, slowest=1).stop()


def test_a_loop_whose_last_round_does_not_end_is_waited_for_no_longer_than_it_may_take() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(STOP_TIMEOUT * 2)

    loop = Loop("stuck", work, seconds=1, slowest=1)
    loop.start()
    assert begun.wait(STOP_TIMEOUT)
    loop.stop(within=-1)
    assert "stuck" in {thread.name for thread in threading.enumerate()}
    may_end.set()
    loop.stop()
    assert "stuck" not in {thread.name for thread in threading.enumerate()}


def test_a_failure_is_told_once_and_so_is_its_end(until, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rounds: list[int] = []

    def work() -> None:
        rounds.append(1)
        if len(rounds) <= 4:
            raise InfrastructureError("the record is away")

    loop = Loop("recover", work, seconds=0.001, slowest=0.002)
    loop.start()
    until(lambda: len(rounds) > 6)
    loop.stop()
    assert [record.message for record in caplog.records] == [
        "recover: InfrastructureError: the record is away",
        "recover: works again",
    ]
    assert caplog.records[0].exc_info is None


def test_what_nobody_expected_is_logged_with_its_place_and_ends_nothing(until, caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []

    def work() -> None:
        rounds.append(1)
        raise KeyError("surprise")

    loop = Loop("reap", work, seconds=0.001, slowest=0.002)
    loop.start()
    until(lambda: len(rounds) > 2)
    loop.stop()
    (told,) = caplog.records
    assert told.exc_info
