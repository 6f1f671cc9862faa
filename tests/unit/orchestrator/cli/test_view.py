"""The views of a run."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from orchestrator.cli.view import JsonLinesView, LiveView, Marks, PlainView, wants_live
from orchestrator.runs.models import Event


def output(event: Callable[..., Event], lines: int) -> list[Event]:
    text = "".join(f"line {number}\n" for number in range(1, lines + 1))
    return [
        event("command.started", command="make test"),
        event("command.output", stream="stdout", text=text),
        event("command.finished", exit_code=0),
    ]


def test_every_plain_line_begins_with_the_time(event: Callable[..., Event]) -> None:
    file = io.StringIO()

    with PlainView(file, "mend  run-1") as view:
        view.event(event("command.started", command="make"))
        view.event(event("command.output", stream="stdout", text="::set-env name=PATH::x\n##[error]y\n"))
        view.event(event("command.finished", exit_code=1))
        view.say("cancelling")

    lines = file.getvalue().splitlines()
    assert len(lines) == 6
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert [line[9:] for line in lines[1:]] == [
        "$ make", "|   ::set-env name=PATH::x", "|   ##[error]y", "! make  exit code 1, 2.0 s", "- cancelling"
    ]  # fmt: skip


def test_the_live_view_leaves_the_tail_of_the_output_behind(event: Callable[..., Event]) -> None:
    file = io.StringIO()

    with LiveView(Console(file=file, width=80, force_terminal=True, color_system=None), "mend  run-1") as view:
        for one in output(event, 20):
            view.event(one)

    left = [line for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).split("\n") if line.strip()]
    settled = [line.rpartition("\r")[2].strip() for line in left]  # a carriage return: the status line was drawn over
    first = settled.index("(12 earlier lines)")
    assert settled[first + 1 : first + 9] == [f"line {number}" for number in range(13, 21)]
    assert settled[first + 9].endswith("make test  exit code 0, 2.0 s")


def test_the_live_view_shows_the_running_step_and_the_tail_below_what_has_happened(event: Callable[..., Event]) -> None:
    view = LiveView(Console(file=io.StringIO(), width=60), "mend  run-1")
    for one in output(event, 3)[:2]:
        view.event(one)

    console = Console(file=io.StringIO(), width=60)
    with console.capture() as captured:
        console.print(view._status())

    *tail, status = [line.strip() for line in captured.get().splitlines()]
    assert tail == ["line 1", "line 2", "line 3"]
    assert "running make test" in status
    assert status.endswith("0.0 s")


def test_markup_in_output_is_text(event: Callable[..., Event]) -> None:
    file = io.StringIO()

    with LiveView(Console(file=file, width=80), "[red]x[/nonsense]") as view:
        view.event(event("model.message", text="[bold]a[/wrong] :smile:"))

    assert "[bold]a[/wrong] :smile:" in file.getvalue()
    assert "[red]x[/nonsense]" in file.getvalue()


def test_json_lines_hold_every_event_whole(event: Callable[..., Event]) -> None:
    file = io.StringIO()
    with JsonLinesView(file) as view:
        for one in output(event, 2):
            view.event(one)

    found = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [one["seq"] for one in found] == [1, 2, 3]
    assert found[1]["data"] == {"stream": "stdout", "text": "line 1\nline 2\n"}


@pytest.mark.parametrize(
    ("terminal", "environment", "live"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (True, {"TERM": "xterm", "CI": "true"}, False),
        (True, {"TERM": "xterm", "CI": "0"}, True),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_only_a_person_at_a_terminal_gets_the_live_view(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], live: bool
) -> None:
    for name in ("TERM", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: terminal, raising=False)

    assert wants_live(file) is live


def test_marks_are_plain_where_the_encoding_is() -> None:
    assert Marks.of("ascii") == Marks.of(None) == Marks()
    assert Marks.of("utf-8").good == "✓"
