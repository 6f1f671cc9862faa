"""Taking secrets out of what tools tell: before the model sees it, before it is noted as a step, before it becomes an event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

Redact = Callable[[str], str]

Result = ToolMessage | Command[Any]


class RedactedResults(AgentMiddleware[AgentState[Any], None, Any]):
    """Passes all texts in the results of tools through `redact`. It belongs around everything else.

    A model that reads a file with a secret sees `***` in its place, and cannot edit just that place; commands have the secrets
    in their environment.
    """

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Result]) -> Result:
        """The call; its result without secrets."""
        return redacted_result(handler(request), self._redact)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Result]]
    ) -> Result:
        """The call; its result without secrets."""
        return redacted_result(await handler(request), self._redact)


def redacted_result(result: Result, redact: Redact) -> Result:
    """A tool's result without secrets: its message, or all that it changes in the agent's state."""
    if isinstance(result, Command):
        return replace(result, update=_redacted(result.update, redact))
    found: ToolMessage = _redacted_message(result, redact)
    return found


def _redacted_message(message: Any, redact: Redact) -> Any:
    parts = {name: _redacted(getattr(message, name), redact) for name in ("content", "additional_kwargs")}
    if isinstance(message, ToolMessage):
        parts["artifact"] = _redacted(message.artifact, redact)
    return message.model_copy(update=parts)


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, BaseMessage):
        return _redacted_message(value, redact)
    if isinstance(value, Mapping):
        return {key: _redacted(part, redact) for key, part in value.items()}
    if isinstance(value, list):
        return [_redacted(part, redact) for part in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_redacted(part, redact) for part in value)
    return value
