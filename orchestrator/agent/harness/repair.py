"""A conversation that no provider would accept is mended: tool calls without results, results without calls, calls that
cannot be read.

A call that was interrupted, cancelled or cut off leaves an answer of the model that asks for something and gets nothing. Every
provider refuses such a history, and it would stay refused for as long as the thread lives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, RemoveMessage, ToolCall, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime

from orchestrator.agent.render import clean, clip
from orchestrator.errors import TaskFailed

UNREADABLE_ANSWERS_MAX = 3
"""Answers in a row with nothing but tool calls that cannot be read."""
ARGUMENTS_CAP = 500
"""Characters of a call's arguments that an error message repeats."""

CANCELLED = (
    "Error: this call was interrupted before it had a result. It may or may not have taken effect: look before you repeat it."
)


class MalformedToolCalls(TaskFailed):
    """The model asked for tools several times in a row in a form that cannot be read."""


class PatchToolCallsMiddleware(AgentMiddleware[Any, Any, Any]):
    """Mends the history before the agent starts, and answers calls that cannot be read, so that the model tries again."""

    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Replace the history when it is not whole."""
        messages: list[BaseMessage] = state["messages"]
        whole = repaired(messages)
        if len(whole) == len(messages) and all(one is other for one, other in zip(whole, messages, strict=True)):
            return None
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *whole]}

    async def abefore_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Replace the history when it is not whole."""
        return self.before_agent(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask again while the model's tool calls cannot be read. Raises `MalformedToolCalls` when that does not help."""
        attempts = _Attempts(request)
        while not attempts.take(handler(attempts.request)):
            pass
        return attempts.response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Ask again while the model's tool calls cannot be read. Raises `MalformedToolCalls` when that does not help."""
        attempts = _Attempts(request)
        while not attempts.take(await handler(attempts.request)):
            pass
        return attempts.response


class _Attempts:
    """The answers of one turn of the model, up to the first that can be acted on."""

    def __init__(self, request: ModelRequest[Any]) -> None:
        self.request = request
        self._given = request.messages
        self._made: list[Any] = []
        self._count = 0

    def take(self, response: ModelResponse[Any]) -> bool:
        """Whether this answer ends the turn."""
        self._count += 1
        result = [part for message in response.result for part in _answered(message)]
        last = next((message for message in reversed(result) if isinstance(message, AIMessage)), None)
        self._made += result
        self.response = ModelResponse(self._made, response.structured_response)
        if last is None or last.tool_calls or not last.invalid_tool_calls or response.structured_response is not None:
            return True
        if self._count == UNREADABLE_ANSWERS_MAX:
            said = result[-1].text
            raise MalformedToolCalls(f"the model's tool calls could not be read {self._count} times in a row: {said}")
        self.request = self.request.override(messages=[*self._given, *self._made])
        return False


def repaired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """`messages` with exactly one result for each tool call, right after the answer that calls, and no result elsewhere.

    A missing result is filled in as an error. One that stands further below is brought up. Of two results of one call the
    first counts; a result that answers no call is left out. An id counts from its call to the next call with the same id: some
    providers number the calls of each answer anew. Messages that need no change are the same objects.
    """
    named = [_identified(message) if isinstance(message, AIMessage) else message for message in messages]
    results = _results(named)
    found: list[BaseMessage] = []
    for index, message in enumerate(named):
        if isinstance(message, AIMessage):
            found += [message, *results[index]]
            answered = {result.tool_call_id for result in results[index]}
            found += [error for error in _errors(message, CANCELLED) if error.tool_call_id not in answered]
        elif not isinstance(message, ToolMessage):
            found.append(message)
    return found


def _results(messages: Sequence[BaseMessage]) -> dict[int, list[ToolMessage]]:
    """The results of each answer, by its place."""
    waiting: dict[str | None, int] = {}
    results: dict[int, list[ToolMessage]] = defaultdict(list)
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            waiting |= {call["id"]: index for call in (*message.tool_calls, *message.invalid_tool_calls)}
        elif isinstance(message, ToolMessage) and message.tool_call_id in waiting:
            results[waiting.pop(message.tool_call_id)].append(message)
    return results


def _answered(message: BaseMessage) -> list[BaseMessage]:
    """The message, and what tells the model about those of its calls that cannot be read."""
    if not isinstance(message, AIMessage):
        return [message]
    message = _identified(message)
    return [message, *_errors(message, None)]


def _errors(message: AIMessage, cancelled: str | None) -> Iterator[ToolMessage]:
    """An error for each call: `cancelled` for those that can be read; without it, none for those."""
    for call in message.tool_calls if cancelled else []:
        yield ToolMessage(cancelled, name=call["name"], tool_call_id=call["id"], status="error")
    for broken in message.invalid_tool_calls:
        yield ToolMessage(_unreadable(broken), name=broken["name"] or "unknown", tool_call_id=broken["id"], status="error")


def _unreadable(call: InvalidToolCall) -> str:
    given = clip(clean(call["args"] or ""), ARGUMENTS_CAP)
    return (
        f"Error: the arguments of {call['name'] or 'this call'} are not a JSON object, so nothing was done. Call it again with "
        f"all of them; if they were cut off, they are too long for one call. What came: {given}"
    )


def _identified(message: AIMessage) -> AIMessage:
    """The answer with an id of its own for each of its calls. It is the same object when there is nothing to give."""
    ids = [call["id"] for call in (*message.tool_calls, *message.invalid_tool_calls)]
    if all(ids) and len(set(ids)) == len(ids):
        return message
    seen: set[str | None] = set()
    calls = [ToolCall(**{**call, "id": _own_id(call["id"], seen)}) for call in message.tool_calls]
    broken = [InvalidToolCall(**{**call, "id": _own_id(call["id"], seen)}) for call in message.invalid_tool_calls]
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": broken})


def _own_id(given: str | None, seen: set[str | None]) -> str:
    own = given if given and given not in seen else f"call_{uuid4().hex}"
    seen.add(own)
    return own
