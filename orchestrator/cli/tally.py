"""What a run's events add up to: exit codes, tokens, calls. What the record of a run does not say by itself."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from orchestrator.eventdata import Data

if TYPE_CHECKING:
    from orchestrator.runs.models import Event

MAX_TAIL = 64 * 1024
"""Characters of output that are kept, for the JUnit report."""


class Tally:
    """Sums over the events of one run; of the exit codes, those of the last attempt."""

    def __init__(self) -> None:
        self.attempts = 0
        self.model_calls = 0
        self.tool_calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.command_exit: int | None = None
        self.verify_exit: int | None = None
        self.verify_seconds = 0.0
        self.children: dict[str, str] = {}
        """Names of the children since the task was last begun from its inputs, by their ids."""
        self.ends: dict[str, str] = {}
        """Statuses of those that have ended, by their ids."""
        self.merges = self.merged = self.conflicts = 0
        """Merges of what these have changed, files that they changed in the workspace, conflicts that they left."""
        self.left_out: list[str] = []
        """Names of those whose work was not merged, though they succeeded."""
        self.tail = ""
        """The end of what the command and the check printed."""
        self._verify_began: datetime | None = None
        self._begun = ""

    @property
    def verify_failed(self) -> bool:
        """Whether it was the check that failed."""
        return self.verify_exit not in (None, 0)

    def feed(self, event: Event) -> None:
        """Add one event; call it once for each, in order."""
        data = Data(event.data)
        match event.type:
            case "run.started":
                self.attempts += 1
                self.command_exit = self.verify_exit = None
                self.tail = ""
            case "command.finished":
                self.command_exit = data.integer("exit_code")
            case "command.output" | "verify.output":
                self.tail = (self.tail + data.text("text"))[-MAX_TAIL:]
            case "verify.started":
                self._verify_began = event.at
            case "verify.finished":
                self.verify_exit = data.integer("exit_code")
                if self._verify_began:
                    self.verify_seconds = (event.at - self._verify_began).total_seconds()
            case "model.message":
                usage = Data(data.mapping("usage"))
                self.model_calls += 1
                self.input_tokens += usage.integer("input_tokens")
                self.output_tokens += usage.integer("output_tokens")
            case "tool.call":
                self.tool_calls += 1
            case "fan_out.started":
                self._fan_out(data)
            case "child.finished":
                self.ends[data.text("run")] = data.text("status")
            case "merge.finished":
                self.merges += 1
                self.merged += data.integer("merged")
                self.conflicts += data.integer("conflicts")
                self.left_out += [str(name) for name in data.items("left_out")]

    def _fan_out(self, data: Data) -> None:
        begun = beginning_of(data.text("key"))
        if begun != self._begun:  # what came before is no more
            self._begun, self.left_out = begun, []
            self.children.clear()
            self.ends.clear()
            self.merges = self.merged = self.conflicts = 0
        told = [Data(one) for one in data.items("children") if isinstance(one, dict)]
        self.children |= {one.text("run"): one.text("name") for one in told}


def beginning_of(key: str) -> str:
    """Which beginning of the task from its inputs a fan-out belongs to: its key begins with the number of that attempt."""
    return key.partition("-")[0]
