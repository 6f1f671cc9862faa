"""Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from orchestrator.cli.interrupt import Interrupts

DEADLINE = 10.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_cancels_and_the_second_leaves(number: int) -> None:
    cancelled, said = threading.Event(), []

    with Interrupts(cancelled.set, said.append) as interrupts:
        os.kill(os.getpid(), number)
        assert cancelled.wait(DEADLINE)
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)

    assert len(said) == 1
    assert said[0].startswith("cancelling")


def test_the_main_thread_goes_on_while_the_run_is_cancelled() -> None:
    release, cancelled = threading.Event(), threading.Event()

    def cancel() -> None:
        release.wait(DEADLINE)
        cancelled.set()

    with Interrupts(cancel, lambda text: None):
        os.kill(os.getpid(), signal.SIGINT)
        assert not cancelled.is_set()
        release.set()
        assert cancelled.wait(DEADLINE)


def test_a_run_that_cannot_be_cancelled_is_said() -> None:
    told, said = threading.Event(), []

    def announce(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            told.set()

    def cancel() -> None:
        raise OSError("the record is gone")

    with Interrupts(cancel, announce):
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(DEADLINE)

    assert said[1] == "the run could not be cancelled: the record is gone"


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    with Interrupts(lambda: None, lambda text: None):
        pass

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
