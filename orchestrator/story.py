"""A run's events as lines for people: one table of what each event says, shared by the live view, the plain one and `logs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.eventdata import Data
from orchestrator.text import Lines, clean, count, duration, names, one_line, size

if TYPE_CHECKING:
    from orchestrator.runs.models import Event

MAX_RESULT_LINES = 4
"""Lines of a tool's result that are shown; `fanfold runs logs -o jsonl` has all that was kept."""
MAX_MESSAGE_LINES = 40
"""Lines of one model message that are shown."""

Tone = Literal["step", "good", "bad", "say", "call", "result", "output", "note"]


@dataclass(frozen=True)
class Line:
    """One line. `text` is clean. `output` lines are a command's own, `stream` tells which."""

    tone: Tone
    text: str
    at: datetime
    stream: str = "stdout"


class Story:
    """Turns events, in their order, into lines. It remembers what runs, to say how long it took."""

    def __init__(self) -> None:
        self.now = "waiting for a worker"
        """What happens at the moment, for a status line."""
        self._streams: dict[str, Lines] = {}
        self._since: datetime | None = None
        self._label = ""
        self._calls: dict[str, str] = {}
        """Tool calls that run, by id."""
        self._together = False
        """Whether they were made at once: then a result says whose it is."""
        self._children = self._children_ended = 0
        """Of the last fan-out."""

    def feed(self, event: Event) -> Iterator[Line]:
        """The lines that this event adds. An event of a type that is not known here adds none."""
        tell = _TELL.get(event.type)
        if tell:
            yield from tell(self, event, Data(event.data))

    def _started(self, event: Event, data: Data) -> Iterator[Line]:
        attempt = data.integer("attempt")
        self.now = "preparing the sandbox"
        if attempt > 1:
            yield Line("note", f"attempt {attempt}", event.at)

    def _chosen(self, event: Event, data: Data) -> Iterator[Line]:
        for one in (item for item in data.items("passed_over") if isinstance(item, dict)):
            told = f"not on {one_line(str(one.get('provider')), 40)}: {one_line(str(one.get('reason')), 300)}"
            yield Line("note", told, event.at)

    def _sandbox(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "unpacking the inputs"
        provider = data.text("provider")
        yield Line("good", f"sandbox ready{f' on {provider}' if provider else ''}", event.at)

    def _input(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "starting"
        yield Line("good", f"inputs in place, {size(data.integer('bytes'))}", event.at)

    def _command(self, event: Event, data: Data) -> Iterator[Line]:
        verify = event.type.startswith("verify")
        command = one_line(data.text("command"), 80)
        self.now = f"verifying: {command}" if verify and command else "verifying" if verify else f"running {command}".rstrip()
        self._label = f"verify: {command}" if verify and command else "verify" if verify else command or "command"
        self._since = event.at
        yield Line("step", self._label, event.at)

    def _output(self, event: Event, data: Data) -> Iterator[Line]:
        stream = data.text("stream") or "stdout"
        for text in self._streams.setdefault(stream, Lines()).feed(data.text("text")):
            yield Line("output", text, event.at, stream)

    def _finished_command(self, event: Event, data: Data) -> Iterator[Line]:
        yield from self._rest(event)
        code = data.integer("exit_code")
        took = f", {duration((event.at - self._since).total_seconds())}" if self._since else ""
        how = "timed out" if data.flag("timed_out") else f"exit code {code}"
        self.now = "collecting the outputs"
        label = one_line(self._label or "command", 50)
        yield Line("good" if code == 0 else "bad", f"{label}  {how}{took}", event.at)
        self._since = None

    def _message(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "the model thinks"
        lines = clean(data.text("text")).strip().splitlines()
        for text in lines[:MAX_MESSAGE_LINES]:
            yield Line("say", text, event.at)
        if len(lines) > MAX_MESSAGE_LINES:
            yield Line("note", f"{len(lines) - MAX_MESSAGE_LINES} more lines", event.at)

    def _call(self, event: Event, data: Data) -> Iterator[Line]:
        text = f"{one_line(data.text('name'), 40)}  {_arguments(data.mapping('args'))}".rstrip()
        self.now = text
        self._together = bool(self._calls)
        self._calls[data.text("id")] = text
        yield Line("call", text, event.at)

    def _result(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "the model thinks"
        call = self._calls.pop(data.text("id"), data.text("name"))
        if data.text("name") in _TOLD_OTHERWISE:
            return
        if self._together:
            yield Line("result", f"{one_line(call, 80)}:", event.at)
        tone: Tone = "bad" if data.text("status") == "error" else "result"
        lines = [line for line in clean(data.text("text")).splitlines() if line.strip()]
        # The end of a command's output says how it went; of a listing or a file the beginning tells more.
        ends = data.text("name") == "execute"
        shown = lines[-MAX_RESULT_LINES:] if ends else lines[:MAX_RESULT_LINES]
        left = len(lines) - len(shown)
        more = [Line("result", f"({count(left, 'more line')})", event.at)] if left else []
        told = [Line(tone, one_line(line, 160) if tone == "bad" else line[:160].expandtabs(4), event.at) for line in shown]
        yield from (more + told if ends else told + more)

    def _todos(self, event: Event, data: Data) -> Iterator[Line]:
        todos = [item for item in data.items("todos") if isinstance(item, dict)]
        done = sum(item.get("status") == "completed" for item in todos)
        current = next((str(item.get("content", "")) for item in todos if item.get("status") == "in_progress"), "")
        text = f"todo {done}/{len(todos)}" + (f": {one_line(current, 100)}" if current else "")
        yield Line("note", text, event.at)

    def _artifact(self, event: Event, data: Data) -> Iterator[Line]:
        yield Line("note", f"artifact {one_line(data.text('name'))}, {size(data.integer('size'))}", event.at)

    def _log(self, event: Event, data: Data) -> Iterator[Line]:
        tone: Tone = "bad" if data.text("level") in ("error", "warning") else "note"
        for text in clean(data.text("text")).splitlines():
            yield Line(tone, text, event.at)

    def _interrupted(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "waiting for a decision"
        for action in (item for item in data.items("actions") if isinstance(item, dict)):
            args = action.get("args")
            shown = _arguments(args) if isinstance(args, dict) else ""
            yield Line("note", f"asks: {one_line(str(action.get('name')), 40)}  {shown}".rstrip(), event.at)
        yield Line("note", f"answer with `fanfold runs decide {event.run_id}`", event.at)

    def _decided(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "waiting for a worker"
        kinds = [str(item.get("type")) for item in data.items("decisions") if isinstance(item, dict)]
        yield Line("good", f"decided: {one_line(', '.join(kinds))}", event.at)

    def _adopted(self, event: Event, data: Data) -> Iterator[Line]:
        if self._children_ended < self._children:
            self.now = self._progress()
        yield Line("good", "the sandbox is as it was: the run goes on", event.at)

    def _fan_out(self, event: Event, data: Data) -> Iterator[Line]:
        self._children, self._children_ended = len(data.items("children")), 0
        self.now = self._progress()
        yield Line("note", f"fan-out: {count(self._children, 'child', 'children')}", event.at)

    def _child(self, event: Event, data: Data) -> Iterator[Line]:
        self._children_ended += 1
        self.now = self._progress() if self._children_ended < self._children else "merging what they changed"
        status, reason = data.text("status"), data.text("error")
        told = f"child {one_line(data.text('name'), 60)}  {one_line(status, 20)}{': ' if reason else ''}{one_line(reason, 160)}"
        yield Line("good" if status == "success" else "bad", told, event.at)

    def _progress(self) -> str:
        return f"{self._children_ended} of {count(self._children, 'child', 'children')} done"

    def _merged(self, event: Event, data: Data) -> Iterator[Line]:
        self.now = "collecting the outputs"
        conflicts, left_out = data.integer("conflicts"), [str(one) for one in data.items("left_out")]
        left = f", {count(conflicts, 'conflict')} left" if conflicts else ""
        without = one_line(f", left out: {names(left_out)}", 400) if left_out else ""
        tone: Tone = "bad" if left or without else "good"
        yield Line(tone, f"merged {count(data.integer('merged'), 'file')}{left}{without}", event.at)

    def _finished(self, event: Event, data: Data) -> Iterator[Line]:
        yield from self._rest(event)
        self.now = "finished"

    def _rest(self, event: Event) -> Iterator[Line]:
        for stream, lines in self._streams.items():
            for text in lines.finish():
                yield Line("output", text, event.at, stream)


_TOLD_OTHERWISE = frozenset({"write_todos"})
"""Tools whose results have an event of their own."""
_MAIN_ARGUMENT = ("command", "file_path", "path", "pattern")
_MUTE = frozenset({"content", "old_string", "new_string", "todos"})


def _arguments(args: Mapping[str, Any]) -> str:
    """The one or two arguments that tell what a call is about."""
    shown = [key for key in ("pattern", *_MAIN_ARGUMENT) if key in args]
    if shown:
        return "  ".join(one_line(str(args[key]), 100) for key in dict.fromkeys(shown))
    return "  ".join(f"{one_line(key, 20)}={one_line(str(value), 40)}" for key, value in args.items() if key not in _MUTE)[:160]


_TELL: Mapping[str, Callable[[Story, Event, Data], Iterator[Line]]] = {
    "run.started": Story._started,
    "provider.chosen": Story._chosen,
    "sandbox.created": Story._sandbox,
    "input.ready": Story._input,
    "command.started": Story._command,
    "command.output": Story._output,
    "command.finished": Story._finished_command,
    "verify.started": Story._command,
    "verify.output": Story._output,
    "verify.finished": Story._finished_command,
    "model.message": Story._message,
    "tool.call": Story._call,
    "tool.result": Story._result,
    "todos.updated": Story._todos,
    "artifact.created": Story._artifact,
    "log": Story._log,
    "sandbox.adopted": Story._adopted,
    "fan_out.started": Story._fan_out,
    "child.finished": Story._child,
    "merge.finished": Story._merged,
    "run.interrupted": Story._interrupted,
    "run.decided": Story._decided,
    "run.finished": Story._finished,
}
