"""How a run is watched: a live view for a terminal, dated lines for CI and files, JSON lines for programs.

A view is told each event once, in order, and may be told things by another thread (`say`, on Ctrl-C).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from orchestrator.story import Line, Story, Tone
from orchestrator.text import clean, duration, one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from orchestrator.runs.models import Event, Run

TAIL_LINES = 8
"""Lines of a running command's output that the live view shows, and leaves behind when the command has ended."""
REFRESHES_PER_SECOND = 10


class View(AbstractContextManager["View"], Protocol):
    """Enter it before the first event and leave it after the last one: a terminal is put back in order on leaving."""

    def event(self, event: Event) -> None:
        """Show what this event says."""
        ...

    def say(self, text: str) -> None:
        """Show a remark of the program's own."""
        ...


@dataclass(frozen=True)
class Marks:
    """The signs before lines; plain ones for terminals and logs that are not UTF-8."""

    good: str = "+"
    bad: str = "!"
    call: str = ">"
    spinner: str = "line"

    @classmethod
    def of(cls, encoding: str | None) -> Marks:
        """What can be shown in `encoding`."""
        if (encoding or "").lower().replace("-", "") != "utf8":
            return cls()
        return cls(good="✓", bad="✗", call="→", spinner="dots")

    def before(self, tone: Tone) -> str:
        """The sign of a line."""
        return {"good": self.good, "bad": self.bad, "call": self.call, "step": "$", "output": "|"}.get(tone, "")


class PlainView:
    """One dated line for each thing that happens, as it happens.

    Every line begins with the time, the command's own output too, so that nothing a sandbox prints can be taken by a CI
    system for a command to itself.
    """

    def __init__(self, file: TextIO, title: str = "") -> None:
        self._story = Story()
        self._file = file
        self._title = title
        self._marks = Marks()

    def __enter__(self) -> PlainView:
        if self._title:
            self.say(self._title)
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.flush()

    def event(self, event: Event) -> None:
        """See `View`."""
        for line in self._story.feed(event):
            at = line.at.astimezone().strftime("%H:%M:%S")
            self._file.write(f"{at} {self._marks.before(line.tone):1} {_indent(line)}{line.text}".rstrip() + "\n")
        self._file.flush()

    def say(self, text: str) -> None:
        """See `View`."""
        self._file.write(f"{time.strftime('%H:%M:%S')} - {clean(text)}\n")
        self._file.flush()


_STYLES: dict[Tone, str] = {
    "good": "green", "bad": "red", "call": "cyan", "step": "bold", "result": "dim", "output": "dim", "note": "dim", "say": ""
}  # fmt: skip


class LiveView:
    """What has happened scrolls up; below it stand the tail of the running command's output, the current step and the time."""

    def __init__(self, console: Console, title: str) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        self._story = Story()
        self._console = console
        self._title = title
        self._marks = Marks.of(console.encoding)
        self._spinner = Spinner(self._marks.spinner, style="cyan")
        self._began = time.monotonic()
        self._tail: deque[Line] = deque(maxlen=TAIL_LINES)
        self._output_lines = 0
        self._live = Live(
            console=console,
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND,
            get_renderable=self._status,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveView:
        self._console.print(self._title, style="bold", markup=False, soft_wrap=True)
        self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._settle()
        self._live.__exit__(None, None, None)

    def event(self, event: Event) -> None:
        """See `View`."""
        for line in self._story.feed(event):
            if line.tone == "output":
                self._tail.append(line)
                self._output_lines += 1
            else:
                self._settle()
                self._print(line)

    def say(self, text: str) -> None:
        """See `View`."""
        from rich.text import Text

        self._console.print(Text(f"  {clean(text)}", style="yellow"), soft_wrap=True)

    def _settle(self) -> None:
        """Leave the tail of the output behind, above what comes next."""
        from rich.text import Text

        hidden = self._output_lines - len(self._tail)
        if hidden > 0:
            self._console.print(Text(f"    ({hidden} earlier lines)", style="dim"), soft_wrap=True)
        for line in self._tail:
            self._print(line)
        self._tail.clear()
        self._output_lines = 0

    def _print(self, line: Line) -> None:
        from rich.padding import Padding
        from rich.text import Text

        style = _STYLES[line.tone]
        if line.tone == "say":
            self._console.print(Padding(Text(line.text), (0, 2)))
        elif line.tone == "output":  # a command's own: whole, as it would stand there without us
            self._console.print(Text(_indent(line) * 2 + line.text, style=style), soft_wrap=True)
        else:
            mark = self._marks.before(line.tone)
            text = f"  {mark}{' ' if mark else ''}{_indent(line)}{line.text}"
            self._console.print(Text(cut(text, self._console.width), style=style), soft_wrap=True)

    def _status(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        width = max(self._console.width - 1, 20)
        tail: list[Any] = [Text(f"    {cut(line.text, width - 4)}", style="dim", no_wrap=True) for line in self._tail]
        elapsed = duration(time.monotonic() - self._began)
        now = one_line(self._story.now, max(width - len(elapsed) - 6, 10))
        self._spinner.text = Text.assemble((now, "bold"), f"  {elapsed}")
        return Group(*tail, self._spinner)


class JsonLinesView:
    """Every event as one line of JSON, for programs."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def __enter__(self) -> JsonLinesView:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.flush()

    def event(self, event: Event) -> None:
        """See `View`."""
        from orchestrator.cli.shapes import event_json

        self._file.write(json.dumps(event_json(event)) + "\n")
        self._file.flush()

    def say(self, text: str) -> None:
        """See `View`. It is no event: it goes to stderr."""
        sys.stderr.write(clean(text) + "\n")


def cut(text: str, width: int) -> str:
    """`text` with its own spacing, cut to `width` columns of a terminal."""
    text = text.expandtabs(8)
    return text if len(text) <= width else text[: width - 1] + "…"


def _indent(line: Line) -> str:
    return {"result": "    ", "output": "  "}.get(line.tone, "")


def choose(output: str, run: Run) -> View:
    """The view of `run` for `-o OUTPUT`: on stdout for people, on stderr when stdout is kept for the JSON document."""
    if output == "jsonl":
        return JsonLinesView(sys.stdout)
    file = sys.stderr if output == "json" else sys.stdout
    title = f"{one_line(run.name)}  {run.id}"
    if not wants_live(file):
        return PlainView(file, title)
    from rich.console import Console

    return LiveView(Console(file=file, highlight=False), title)


def wants_live(file: TextIO) -> bool:
    """Whether a person sits before this stream: a terminal that can move its cursor, and no CI system."""
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return file.isatty() and os.environ.get("TERM", "dumb") != "dumb" and not in_ci
