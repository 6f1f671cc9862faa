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


def test_children_and_merges_are_those_since_the_task_was_last_begun(event: Callable[..., Event]) -> None:
    tally = Tally()

    for one in (
        event("fan_out.started", key="1-fan-out", children=[{"run": "run-1", "name": "a"}]),
        event("child.finished", run="run-1", name="a", status="error", error="x"),
        event("merge.finished", key="1-fan-out", merged=7, conflicts=2, left_out=["a"]),
        event("fan_out.started", key="2-task-x", children=[{"run": "run-2", "name": "a"}, {"run": "run-3", "name": "b"}]),
        event("child.finished", run="run-3", name="b", status="success", error=None),
        event("merge.finished", key="2-task-x", merged=1, conflicts=0, left_out=["b"]),
        event("fan_out.started", key="2-task-y", children=[{"run": "run-4", "name": "c"}]),
        event("merge.finished", key="2-task-y", merged=2, conflicts=1, left_out=[]),
    ):
        tally.feed(one)

    assert tally.children == {"run-2": "a", "run-3": "b", "run-4": "c"}
    assert tally.ends == {"run-3": "success"}
    assert (tally.merges, tally.merged, tally.conflicts, tally.left_out) == (2, 3, 1, ["b"])
