"""Spans of an agent, its calls of models and its calls of tools, named as OpenTelemetry's conventions for generative AI say.

They tell names, numbers and durations, never what was said.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from orchestrator.agent.usage import answers
from orchestrator.telemetry.traces import failed, tracer

MAX_NAME = 100
"""Characters of a name that a model has made up."""


class TracedModels(BaseCallbackHandler):
    """A span for each call of a model, whoever asks: the agent, its subagents, what sums up a long conversation."""

    run_inline = True  # where it is called, the span around the call is the current one

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[UUID, Span] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """A call begins."""
        told = metadata or {}
        model = str(told.get("ls_model_name") or "unknown")
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": str(told.get("ls_provider") or "unknown"),
            "gen_ai.request.model": model,
            "gen_ai.agent.name": str(told.get("lc_agent_name") or ""),
        }
        begun = tracer.start_span(f"chat {model}", kind=SpanKind.CLIENT, attributes=attributes)
        with self._lock:
            self._open[run_id] = begun

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """A call has ended."""
        if (span := self._taken(run_id)) is None:
            return
        for name, count in _usage(response).items():
            span.set_attribute(name, count)
        span.end()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A call has failed, or was cancelled."""
        if (span := self._taken(run_id)) is not None:
            failed(span, error)
            span.end()

    def _taken(self, run_id: UUID) -> Span | None:
        with self._lock:
            return self._open.pop(run_id, None)


class TracedTools(AgentMiddleware[AgentState[Any], None, Any]):
    """A span around each call of a tool, which is the current one for what the tool does."""

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """The call, in its span."""
        with _tool_span(request) as span:
            return _noted(span, handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The call, in its span."""
        with _tool_span(request) as span:
            return _noted(span, await handler(request))


@contextmanager
def _tool_span(request: ToolCallRequest) -> Iterator[Span]:
    name = str(request.tool_call["name"])[:MAX_NAME]
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.id": str(request.tool_call["id"])[:MAX_NAME],
    }
    with tracer.start_as_current_span(
        f"execute_tool {name}", attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except GraphBubbleUp:  # a pause of the graph
            raise
        except Exception as exc:
            failed(span, exc)
            raise


def _noted(span: Span, result: ToolMessage | Command[Any]) -> ToolMessage | Command[Any]:
    if isinstance(result, ToolMessage) and result.status == "error":
        span.set_status(Status(StatusCode.ERROR, "the tool told the model of an error"))
    return result


@contextmanager
def agent_span(name: str, model: str) -> Iterator[Span]:
    """Around one agent, or one part of its work, when it goes on later."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, "gen_ai.request.model": model}
    with trace.use_span(
        tracer.start_span(f"invoke_agent {name}", attributes=attributes),
        end_on_exit=True,
        record_exception=False,
        set_status_on_exception=False,
    ):
        span = trace.get_current_span()
        try:
            yield span
        except Exception as exc:
            failed(span, exc)
            raise


def _usage(response: LLMResult) -> Mapping[str, int]:
    answer = next(answers(response), None)
    if answer is None or not answer.usage_metadata:
        return {}
    usage = answer.usage_metadata
    return {
        "gen_ai.usage.input_tokens": int(usage.get("input_tokens") or 0),
        "gen_ai.usage.output_tokens": int(usage.get("output_tokens") or 0),
    }
