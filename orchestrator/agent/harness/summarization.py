"""A conversation that grows too long: its older part is written to a file, and a summary takes its place.

When to do it, where to cut and how to ask for a summary is langchain's; what is done with the answer is decided here:

- what is cut is appended to a file of the backend before it is cut, and the summary names that file;
- a summary that fails changes nothing: the model is asked with the whole conversation, and whatever its provider then says
  decides; before the next call of the model it is tried again;
- an empty summary is replaced by a pointer to the file; when there is no file either, nothing is cut;
- a model that says its window is too small has the conversation summarized, and is asked once more.

The state is changed by messages alone, and only by those that go: the summary has the id of the first, the others are removed.
What is kept is not sent again, so that nobody who follows the stream sees it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain.agents.middleware import SummarizationMiddleware as Engine
from langchain.agents.middleware.summarization import ContextSize, TriggerClause
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage, ToolMessage
from langgraph.config import get_config
from langgraph.types import Command

from orchestrator.agent.conversation import summary_message
from orchestrator.agent.harness.backend import BackendLike, artifacts_root, hook_runtime, resolve_backend
from orchestrator.agent.harness.history import history_path, saved, text_of
from orchestrator.agent.middleware import PASS_THROUGH
from sandboxes.backends.layered.steps import arun, run
from sandboxes.protocol import BackendProtocol

TRIGGER_TOKENS = 170_000
"""Tokens of a conversation that is summarized, where nobody knows the model's window."""
KEEP_MESSAGES = 6
"""Messages at its end that then stay as they are."""
TRIGGER_FRACTION = 0.85
KEEP_FRACTION = 0.10
"""The same, as parts of the model's window where its profile tells it."""

Trigger = ContextSize | TriggerClause | list[ContextSize | TriggerClause]

SUMMARY = """\
[System: the older part of this conversation was cut, because it had become too long. This summary stands for it.]

<summary>
{summary}
</summary>

[{where}]"""
NO_SUMMARY = """\
[System: the older part of this conversation was cut, because it had become too long. The model gave no \
summary of it. {where}]"""
SAVED = (
    "Every message that was cut is in {path}. Look there with grep and read_file before you do work again, or ask for "
    "something that was said already."
)
NOT_SAVED = "The messages that were cut could not be kept in a file, and this summary is all that is left: {error}"

_log = logging.getLogger(__name__)


def summarization(
    model: BaseChatModel,
    backend: BackendLike | None = None,
    *,
    trigger: Trigger | None = None,
    keep: ContextSize | None = None,
) -> SummarizationMiddleware:
    """Summarize conversations of `model`, with what is cut in `backend` (None: agent state).

    By default at 0.85 of the model's window, keeping 0.10, when its profile tells how large it is; otherwise at 170,000
    tokens, keeping 6 messages. `trigger` and `keep` are langchain's: `("tokens", N)`, `("messages", N)`, `("fraction", F)`.
    """
    known = isinstance((getattr(model, "profile", None) or {}).get("max_input_tokens"), int)
    usual: tuple[ContextSize, ContextSize] = (
        (("fraction", TRIGGER_FRACTION), ("fraction", KEEP_FRACTION))
        if known
        else (("tokens", TRIGGER_TOKENS), ("messages", KEEP_MESSAGES))
    )
    return SummarizationMiddleware(model, backend, trigger=trigger or usual[0], keep=keep or usual[1])


@dataclass(frozen=True)
class _Cut:
    """Messages that go, those that stay, and what the model said of the first."""

    gone: list[AnyMessage]
    kept: list[AnyMessage]
    summary: str


@dataclass(frozen=True)
class _Change:
    """The conversation that the model sees instead, and what makes the same of the one in the state."""

    messages: list[AnyMessage]
    update: list[AnyMessage | RemoveMessage]


class SummarizationMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """See `summarization`. It stands around the call of the model: no step of the graph is spent while there is room."""

    def __init__(
        self, model: BaseChatModel, backend: BackendLike | None = None, *, trigger: Trigger, keep: ContextSize
    ) -> None:
        super().__init__()
        self._backend = backend
        self._engine = Engine(model, trigger=trigger, keep=keep, trim_tokens_to_summarize=None)
        self._forced = Engine(model, trigger=("messages", 1), keep=keep, trim_tokens_to_summarize=None)
        self.transformers = self._engine.transformers

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Ask the model, after a summary if the conversation is too long."""
        summary = self._summarized(self._engine, request)
        try:
            return _answered(handler(_shortened(request, summary)), summary)
        except ContextOverflowError:
            forced = None if summary else self._summarized(self._forced, request)
            if not forced:
                raise
        return _answered(handler(_shortened(request, forced)), forced)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Async form of `wrap_model_call`."""
        summary = await self._asummarized(self._engine, request)
        try:
            return _answered(await handler(_shortened(request, summary)), summary)
        except ContextOverflowError:
            forced = None if summary else await self._asummarized(self._forced, request)
            if not forced:
                raise
        return _answered(await handler(_shortened(request, forced)), forced)

    def _summarized(self, engine: Engine, request: ModelRequest[Any]) -> _Change | None:
        try:
            update = engine.before_model(_light(request), request.runtime)
        except Exception as exc:
            _failed(exc)
            return None
        cut = _cut(request.messages, update)
        if cut is None:
            return None
        backend, path = self._place(request)
        return _change(request, cut, path, run(saved(backend, path, cut.gone)))

    async def _asummarized(self, engine: Engine, request: ModelRequest[Any]) -> _Change | None:
        try:
            update = await engine.abefore_model(_light(request), request.runtime)
        except Exception as exc:
            _failed(exc)
            return None
        cut = _cut(request.messages, update)
        if cut is None:
            return None
        backend, path = self._place(request)
        return _change(request, cut, path, await arun(saved(backend, path, cut.gone)))

    def _place(self, request: ModelRequest[Any]) -> tuple[BackendProtocol, str]:
        backend = resolve_backend(self._backend, hook_runtime(request.state, request.runtime))
        return backend, history_path(artifacts_root(backend), get_config().get("configurable", {}), request.messages)


def _light(request: ModelRequest[Any]) -> AgentState[Any]:
    """The conversation for counting and for the summary's prompt: of sound, video and documents only what they are.

    Their base64 would count as text, of which it has far more than the model is ever charged for.
    """
    return {"messages": [_without_media(message) for message in request.messages]}


def _without_media(message: AnyMessage) -> AnyMessage:
    if isinstance(message.content, str) or not any(map(_is_heavy, message.content)):
        return message
    blocks = [{"type": "text", "text": text_of(block)} if _is_heavy(block) else block for block in message.content]
    return message.model_copy(update={"content": blocks})


def _is_heavy(block: str | dict[str, Any]) -> bool:
    return isinstance(block, dict) and block.get("type") in ("audio", "file", "video")


def _failed(exc: Exception) -> None:
    if isinstance(exc, PASS_THROUGH):
        raise exc
    _log.warning("the conversation was too long, and no summary of it could be made, so it stays whole: %s", exc)


def _cut(messages: Sequence[AnyMessage], update: dict[str, Any] | None) -> _Cut | None:
    """What goes, from langchain's update: (remove all, the summary, what is kept)."""
    if update is None:
        return None
    _, summary, *kept = update["messages"]
    end = _whole_calls(messages, len(messages) - len(kept))
    text = str(summary.text).partition("\n\n")[2].strip()
    return _Cut(list(messages[:end]), list(messages[end:]), text) if end else None


def _whole_calls(messages: Sequence[AnyMessage], end: int) -> int:
    """`end`, or the last place before it that parts no call from its result."""
    callers: dict[str | None, int] = {}
    spans = []
    for index, message in enumerate(messages):
        if isinstance(message, AIMessage):
            callers.update({call["id"]: index for call in message.tool_calls})
        elif isinstance(message, ToolMessage):
            spans.append((callers.get(message.tool_call_id, index), index))
    for start, result in sorted(spans, reverse=True):
        end = start if start < end <= result else end
    return end


def _change(request: ModelRequest[Any], cut: _Cut, path: str, error: str | None) -> _Change | None:
    if error:
        _log.warning("the messages that a summary replaces could not be kept in %s: %s", path, error)
    known = {message.id for message in request.state["messages"]}
    gone = [str(message.id) for message in cut.gone if message.id in known]
    if not gone or (error and not cut.summary):
        return None
    where = NOT_SAVED.format(error=error) if error else SAVED.format(path=path)
    text = SUMMARY.format(summary=cut.summary, where=where) if cut.summary else NO_SUMMARY.format(where=where)
    summary = summary_message(text, cut.gone, gone[0])
    return _Change([summary, *cut.kept], [summary, *(RemoveMessage(id=other) for other in gone[1:])])


def _shortened(request: ModelRequest[Any], change: _Change | None) -> ModelRequest[Any]:
    return request.override(messages=change.messages) if change else request


def _answered(response: ModelResponse[Any], change: _Change | None) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    return ExtendedModelResponse(response, Command(update={"messages": change.update})) if change else response
