"""What each event says to people."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.runs.models import Event
from orchestrator.story import Story


def told(*events: Event) -> list[tuple[str, str]]:
    story = Story()
    return [(line.tone, line.text) for event in events for line in story.feed(event)]


def test_a_command_is_told_with_its_output_its_exit_code_and_its_time(event: Callable[..., Event]) -> None:
    lines = told(
        event("run.started", attempt=1, worker="w"),
        event("sandbox.created", id="sbx-1", provider="local"),
        event("input.ready", bytes=2048),
        event("command.started", command="make test"),
        event("command.output", stream="stdout", text="one\ntw"),
        event("command.output", stream="stdout", text="o\nend"),
        event("command.finished", exit_code=2),
        event("run.finished", status="error", error=None),
    )

    assert lines == [
        ("good", "sandbox ready on local"),
        ("good", "inputs in place, 2.0 KiB"),
        ("step", "make test"),
        ("output", "one"),
        ("output", "two"),
        ("output", "end"),
        ("bad", "make test  exit code 2, 3.0 s"),
    ]


def test_an_agent_is_told_by_its_words_and_calls(event: Callable[..., Event]) -> None:
    lines = told(
        event("model.message", text="I look at it.\n", usage={}),
        event("tool.call", id="1", name="grep", args={"pattern": "def f", "path": "/workspace"}),
        event("tool.result", id="1", name="grep", text="a\nb\nc\nd\ne\nf\n", status="success"),
        event("tool.call", id="2", name="execute", args={"command": "make\ntest"}),
        event("tool.result", id="2", name="execute", text="1\n2\n3\n4\n5\n[Command failed]", status="success"),
        event("tool.result", id="3", name="edit_file", text="Error: no such text", status="error"),
        event("todos.updated", todos=[{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]),
        event("verify.started", command="make check"),
        event("verify.finished", exit_code=0),
        event("artifact.created", name="patch.diff", size=300),
    )

    assert lines == [
        ("say", "I look at it."),
        ("call", "grep  def f  /workspace"),
        ("result", "a"), ("result", "b"), ("result", "c"), ("result", "d"), ("result", "(2 more lines)"),
        ("call", "execute  make test"),
        ("result", "(2 more lines)"), ("result", "3"), ("result", "4"), ("result", "5"), ("result", "[Command failed]"),
        ("bad", "Error: no such text"),
        ("note", "todo 1/2: b"),
        ("step", "verify: make check"),
        ("good", "verify: make check  exit code 0, 1.0 s"),
        ("note", "artifact patch.diff, 300 B"),
    ]  # fmt: skip


def test_results_of_calls_made_together_say_whose_they_are(event: Callable[..., Event]) -> None:
    lines = told(
        event("tool.call", id="1", name="ls", args={"path": "."}),
        event("tool.call", id="2", name="glob", args={"pattern": "*.py"}),
        event("tool.result", id="2", name="glob", text="a.py", status="success"),
        event("tool.result", id="1", name="ls", text="a.py b", status="success"),
    )

    assert [text for _, text in lines] == ["ls  .", "glob  *.py", "glob *.py:", "a.py", "ls .:", "a.py b"]


def test_a_second_attempt_is_said(event: Callable[..., Event]) -> None:
    assert told(event("run.started", attempt=2)) == [("note", "attempt 2")]


def test_a_fan_out_is_told_by_how_its_children_end_and_what_was_merged(event: Callable[..., Event]) -> None:
    children = [{"run": f"run-{name}", "name": name} for name in "abc"]
    story = Story()
    told, now = [], []

    for one in (
        event("fan_out.started", key="1-fan-out", children=children),
        event("child.finished", run="run-b", name="b", status="success", error=None),
        event("child.finished", run="run-a", name="a", status="error", error="exit\ncode 2"),
        event("run.started", attempt=2, resumed=True),
        event("sandbox.adopted", id="sbx-1"),
        event("child.finished", run="run-c", name="c", status="success", error=None),
        event("merge.finished", key="1-fan-out", merged=12, conflicts=1, left_out=["c"]),
    ):
        told += [(line.tone, line.text) for line in story.feed(one)]
        now.append(story.now)

    assert told == [
        ("note", "fan-out: 3 children"),
        ("good", "child b  success"),
        ("bad", "child a  error: exit code 2"),
        ("note", "attempt 2"),
        ("good", "the sandbox is as it was: the run goes on"),
        ("good", "child c  success"),
        ("bad", "merged 12 files, 1 conflict left, left out: c"),
    ]
    assert now == [
        "0 of 3 children done", "1 of 3 children done", "2 of 3 children done", "preparing the sandbox",
        "2 of 3 children done", "merging what they changed", "collecting the outputs",
    ]  # fmt: skip


def test_providers_that_were_passed_over_are_told_with_the_reason(event: Callable[..., Event]) -> None:
    over = [{"provider": "modal", "reason": "no room\nat all"}, {"provider": "docker", "reason": "\x1b[2Jno engine"}]
    assert told(event("provider.chosen", provider="local", passed_over=over)) == [
        ("note", "not on modal: no room at all"), ("note", "not on docker: no engine"),
    ]  # fmt: skip
    assert told(event("provider.chosen", provider="local", passed_over=[])) == []


def test_a_merge_that_left_nothing_is_good(event: Callable[..., Event]) -> None:
    assert told(event("merge.finished", key="1-a", merged=1, conflicts=0, left_out=[])) == [("good", "merged 1 file")]


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("unheard.of", {"text": 1}),
        ("command.output", {"text": ["not", "text"], "stream": {}}),
        ("tool.call", {"name": None, "args": "no mapping"}),
        ("todos.updated", {"todos": [1, None, {"status": 3}]}),
        ("todos.updated", {"todos": "none"}),
        ("artifact.created", {"size": "large"}),
        ("command.finished", {}),
        ("fan_out.started", {"children": "none"}),
        ("child.finished", {"name": 3, "status": None, "error": []}),
        ("merge.finished", {"merged": "all", "left_out": [1, {}]}),
        ("provider.chosen", {"provider": 1, "passed_over": [2, {"provider": []}]}),
    ],
)
def test_data_of_an_unexpected_shape_breaks_nothing(event: Callable[..., Event], type: str, data: dict[str, object]) -> None:
    told(event(type, **data))


def test_no_terminal_sequence_of_a_sandbox_or_a_model_gets_through(event: Callable[..., Event]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2Jx\x9b31m"

    lines = told(
        event("command.started", command=evil),
        event("command.output", stream="stdout", text=evil + "\n"),
        event("model.message", text=evil),
        event("tool.call", name=evil, args={"path": evil}),
        event("tool.result", name=evil, text=evil, status="error"),
        event("tool.call", name="other", args={evil: evil}),
        event("todos.updated", todos=[{"content": evil, "status": "in_progress"}]),
        event("artifact.created", name=evil, size=1),
        event("log", level="info", text=evil),
        event("child.finished", name=evil, status=evil, error=evil),
        event("merge.finished", merged=1, conflicts=0, left_out=[evil]),
    )

    assert len(lines) == 11
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for _, text in lines for character in text)
