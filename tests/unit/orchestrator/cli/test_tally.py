"""What a run's events add up to."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.cli.tally import MAX_TAIL, Tally
from orchestrator.runs.models import Event


def test_exit_codes_are_those_of_the_last_attempt_and_tokens_are_summed(event: Callable[..., Event]) -> None:
    tally = Tally()

    for one in (
        event("run.started", attempt=1),
        event("command.finished", exit_code=7),
        event("verify.started"),
        event("verify.finished", exit_code=9),
        event("run.started", attempt=2),
        event("model.message", text="", usage={"input_tokens": 10, "output_tokens": 2}),
        event("model.message", text="", usage={"input_tokens": 5, "output_tokens": 1}),
        event("tool.call"),
        event("command.finished", exit_code=0),
    ):
        tally.feed(one)

    assert (tally.attempts, tally.command_exit, tally.verify_exit, tally.verify_failed) == (2, 0, None, False)
    assert (tally.model_calls, tally.tool_calls, tally.input_tokens, tally.output_tokens) == (2, 1, 15, 3)


def test_a_check_that_fails_is_told_with_its_time(event: Callable[..., Event]) -> None:
    tally = Tally()

    for one in (event("verify.started"), event("verify.output", text="no"), event("verify.finished", exit_code=3)):
        tally.feed(one)

    assert tally.verify_failed
    assert tally.verify_seconds == 2.0


def test_only_the_end_of_the_output_is_kept(event: Callable[..., Event]) -> None:
    tally = Tally()

    for _ in range(10):
        tally.feed(event("command.output", text="x" * 60_000 + "end"))

    assert len(tally.tail) == MAX_TAIL
    assert tally.tail.endswith("end")
