"""What an attempt takes over of what the earlier ones told."""

from __future__ import annotations

from typing import Any

from orchestrator.runs.models import Event
from orchestrator.runs.store import now
from orchestrator.worker.past import past_of


def events(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    return [Event("run-1", seq, kind, now(), data) for seq, (kind, data) in enumerate(told, start=1)]


def started(attempt: int, resumed: bool) -> tuple[str, dict[str, Any]]:
    return "run.started", {"attempt": attempt, "worker": "w", "resumed": resumed}


FIRST = [
    started(1, False),
    ("command.started", {"command": "make"}),
    ("command.output", {"stream": "stdout", "text": "line", "offset": 4}),
]


def test_an_attempt_that_goes_on_takes_over_what_was_told() -> None:
    past = past_of(events(*FIRST, started(2, True)), epoch=1)
    assert "command" in past.started
    assert past.offsets == {("command.output", "stdout"): 4}


def test_nothing_is_taken_over_from_before_the_task_was_begun_again() -> None:
    """The second attempt meant to go on, found that the sandbox was gone, began again, and was lost before it told of that."""
    past = past_of(events(*FIRST, started(2, True), ("log", {"level": "warning", "text": "gone"}), started(3, True)), epoch=2)
    assert "command" not in past.started
    assert (past.offsets, past.told, past.agent) == ({}, {}, [])


def test_the_end_of_a_command_is_told_and_that_of_a_child_is_another_thing() -> None:
    past = past_of(events(*FIRST, ("command.finished", {"exit_code": 0}), ("child.finished", {"run": "run-2"})), epoch=1)
    assert (past.finished, past.children) == ({"command"}, {"run-2"})
