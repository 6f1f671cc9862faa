"""From what the agent's graph reports to the events of a run, and the sums that are told at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from orchestrator.agent.render import clean, clip

Emit = Callable[[str, dict[str, Any]], None]
"""Takes an event's type and its JSON data."""

RESULT_CAP = 16_000
"""Characters of a tool's result, and of a model's text, in an event. The agent itself sees more."""
ARGUMENT_CAP = 4000
"""Characters of one text among a call's arguments, in an event."""
ITEMS_CAP = 200
"""Items of one list or mapping among a call's arguments, in an event."""
DEPTH_CAP = 8

_USAGE: tuple[Literal["input_tokens", "output_tokens", "total_tokens", "input_token_details", "output_token_details"], ...] = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "input_token_details",
    "output_token_details",
)


class Transcript:
    """Takes the updates of the graph in order, emits an event for each thing that happened, and counts."""

    def __init__(self, emit: Emit, told: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """`told` are the events of before, of an agent that goes on: what they tell is counted, and not told again."""
        self._emit = emit
        self._answer = ""
        self._answers: dict[str, str] = {}
        """For each tool call the answer that made it: some providers number the calls of each answer anew."""
        self._told = {key for kind, data in told if (key := self._key(kind, data)) is not None}
        self._taken: set[str] = set()
        """Ids of the answers that are counted."""
        self._usage: UsageMetadata | None = None
        self.steps = 0
        """Answers of the model."""
        self.text = ""
        """The text of the last answer."""

    @property
    def usage(self) -> dict[str, Any]:
        """Tokens of all answers together, as far as the model told them."""
        return plain_usage(self._usage)

    def take(self, update: Mapping[str, Any]) -> None:
        """One update: what each node that has just run changed in the state."""
        for change in update.values():
            for part in change if isinstance(change, list) else [change]:
                if isinstance(part, Mapping):
                    self._take_change(part)

    def catch_up(self, messages: Iterable[BaseMessage]) -> None:
        """The conversation so far, of an agent that goes on: what of it was never told is told now."""
        for message in messages:
            self._take_message(message)

    def _take_change(self, change: Mapping[str, Any]) -> None:
        if "todos" in change:
            self._emit("todos.updated", {"todos": bounded(change["todos"])})
        messages = change.get("messages")
        for message in messages if isinstance(messages, list) else []:
            self._take_message(message)

    def _take_message(self, message: Any) -> None:
        if isinstance(message, AIMessage):
            self._take_answer(message)
        elif isinstance(message, ToolMessage):
            self._take_result(message)

    def _take_answer(self, message: AIMessage) -> None:
        if message.id is not None:
            if message.id in self._taken:  # a graph that goes on reports what it had noted of its step once more
                return
            self._taken.add(message.id)
        self.steps += 1
        self.text = clean(str(message.text))
        self._usage = add_usage(self._usage, message.usage_metadata)
        usage = plain_usage(message.usage_metadata)
        self._tell("model.message", {"id": message.id, "text": clip(self.text, RESULT_CAP), "usage": usage})
        for call in message.tool_calls:
            self._tell("tool.call", {"id": call["id"], "name": call["name"], "args": bounded(call["args"])})

    def _take_result(self, message: ToolMessage) -> None:
        text = clip(clean(str(message.text)), RESULT_CAP)
        data = {"id": message.tool_call_id, "name": message.name or "", "text": text, "status": message.status}
        self._tell("tool.result", data)

    def _tell(self, kind: str, data: dict[str, Any]) -> None:
        key = self._key(kind, data)
        if key not in self._told:
            self._emit(kind, data)
        if key is not None and key[-1]:
            self._told.add(key)

    def _key(self, kind: str, data: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """What an event tells of, in one conversation: an answer, a call of it, or the call's result."""
        thing = str(data.get("id") or "")
        if kind == "model.message":
            self._answer = thing
        elif kind == "tool.call":
            self._answers[thing] = self._answer
        elif kind != "tool.result":
            return None
        return kind, self._answers.get(thing, "") if kind != "model.message" else "", thing


def plain_usage(usage: UsageMetadata | None) -> dict[str, Any]:
    """Token counts as JSON; empty when the model told none."""
    return {key: usage[key] for key in _USAGE if usage.get(key)} if usage else {}


def bounded(value: Any, depth: int = 0) -> Any:
    """A JSON value with its texts, lists and nesting cut to a size that fits an event."""
    if isinstance(value, str):
        return clip(clean(value), ARGUMENT_CAP)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth >= DEPTH_CAP or not isinstance(value, dict | list | tuple):
        return clip(clean(str(value)), ARGUMENT_CAP)
    if isinstance(value, dict):
        return {clean(str(key))[:ARGUMENT_CAP]: bounded(item, depth + 1) for key, item in list(value.items())[:ITEMS_CAP]}
    return [bounded(item, depth + 1) for item in value[:ITEMS_CAP]]
