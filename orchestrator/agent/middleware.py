"""What surrounds each call of a tool and of the model: idempotency ids, and which errors go where.

A tool's error goes to the model, which can mend it. A failure of the sandbox, or of Fanfold itself, ends the run and is never
shown to the model as a result. A failure of the model's provider is told apart from a wrong key or a wrong name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp, is_invalid_resume
from langgraph.prebuilt.tool_node import ToolCallRequest

from orchestrator.agent.conversation import answers_given
from orchestrator.agent.render import clean, clip
from orchestrator.errors import BadInput, FanfoldError, InfrastructureError
from sandboxes.errors import FanfoldSandboxError
from sandboxes.toolbox.calls import in_scope, inner_scope

ERROR_CAP = 2000
"""Characters of an exception's text that a message repeats."""

_REFUSED_KEY = (401, 403)
_UNKNOWN_MODEL = 404


PASS_THROUGH = (GraphBubbleUp, FanfoldError, FanfoldSandboxError)
"""What no tool's result may hide: a pause of the graph, and failures of Fanfold and of the sandbox."""


def failed(request: ToolCallRequest, exc: Exception) -> ToolMessage:
    """The message that tells the model of a tool's exception. An answer to a pause that does not fit it is raised again."""
    if is_invalid_resume(exc):
        raise exc
    call = request.tool_call
    text = clean(clip(f"Error: {call['name']} failed: {type(exc).__name__}: {exc}", ERROR_CAP))
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")


@contextmanager
def nested_scope(request: ToolCallRequest) -> Iterator[None]:
    """Give a tool call idempotency ids below those of the scope around the agent; none where there is no such scope.

    They are the same on every attempt at this call, and no other call's. Some providers number the tool calls of each answer
    anew, so that an id alone would name many calls: the number of the answer tells them apart.
    """
    if not in_scope():
        yield
        return
    answers = answers_given(request.state["messages"])
    with inner_scope(f"{answers}:{request.tool_call['id']}"):
        yield


class ModelCalls(AgentMiddleware[AgentState[Any], None, Any]):
    """Translates what a model's SDK raises into Fanfold's errors."""

    def __init__(self, model: str, secret: str | None) -> None:
        super().__init__()
        self._model = model
        self._secret = secret

    async def awrap_model_call(
        self,
        request: ModelRequest[None],
        handler: Callable[[ModelRequest[None]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Raises `BadInput` when the key or the name is refused, `InfrastructureError` when the provider fails."""
        try:
            return await handler(request)
        except PASS_THROUGH:
            raise
        except Exception as exc:
            raise self._translated(exc) from exc

    def _translated(self, exc: Exception) -> FanfoldError:
        text = clip(redacted(f"{type(exc).__name__}: {exc}", self._secret), ERROR_CAP)
        status = getattr(exc, "status_code", None)
        who = f"model '{self._model}'"
        if status in _REFUSED_KEY:
            return BadInput(f"{who}: its provider refuses the key: check that it is right and may use this model ({text})")
        if status == _UNKNOWN_MODEL:
            return BadInput(f"{who}: its provider does not know it: check the name ({text})")
        return InfrastructureError(f"{who}: the call failed: {text}")


def redacted(text: str, secret: str | None) -> str:
    """`text` without the key."""
    return text.replace(secret, "***") if secret else text
