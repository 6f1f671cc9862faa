"""Recording any chat model to a cassette, and a chat model that plays one. Both invoke and stream, sync and async."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall, message_chunk_to_message
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable

from orchestrator.agent.cassette import Cassette, Deck, Exchange, Response, dump_cassette
from orchestrator.agent.request import KEYS, Json, Request, ToolLike, describe_tools, normalize
from orchestrator.errors import InfrastructureError

_METADATA = ("model_name", "model", "finish_reason", "stop_reason")
"""What of an answer's `response_metadata` is kept: the rest is about the connection."""


class Tape:
    """Takes exchanges down, in the order of their answers. One tape serves all bindings of a recording model."""

    def __init__(self, file: str, cassette: Cassette, secret: str | None = None) -> None:
        self._file = file
        self._model = cassette.model
        self._secret = secret
        self._tools: dict[str, list[Json]] = {}
        self._exchanges: list[Exchange] = []
        self._ends: dict[str, int] = {"": 0}

    def add(self, request: Request, message: AIMessage) -> None:
        """Take down one exchange."""
        prefixes = ["", *request.prefixes()]
        # The longest beginning of this conversation that is on the tape, but never all of it: something must be new.
        known = next((n for n in range(len(prefixes) - 2, -1, -1) if prefixes[n] in self._ends), 0)
        exchange = Exchange(
            after=self._ends[prefixes[known]],
            tools=self._tools_name(request.tools),
            settings=request.settings,
            messages=list(request.messages[known:]),
            response=_as_response(message),
        )
        self._exchanges.append(Exchange.model_validate(self._without_keys(exchange.model_dump(mode="json"))))
        self._ends.setdefault(prefixes[-1], len(self._exchanges))

    def cassette(self) -> Cassette:
        """What is on the tape so far."""
        return Cassette(model=self._model, tools=dict(self._tools), exchanges=list(self._exchanges))

    def files(self) -> dict[str, bytes]:
        """The cassette under the name of its file."""
        return {self._file: dump_cassette(self.cassette())}

    def normalized(self, messages: list[BaseMessage], tools: Sequence[Json], stop: list[str] | None, extra: Json) -> Request:
        """The request, without the key that the model is called with."""
        request = normalize(messages, tools, stop, extra)
        return Request(*(self._without_keys(part) for part in (request.messages, request.tools, request.settings)))

    def _tools_name(self, tools: Sequence[Json]) -> str | None:
        if not tools:
            return None
        found = next((name for name, known in self._tools.items() if known == list(tools)), f"t{len(self._tools) + 1}")
        self._tools.setdefault(found, list(tools))
        return found

    def _without_keys(self, value: Any) -> Any:
        if isinstance(value, str):
            return KEYS.sub("<key>", value.replace(self._secret, "***") if self._secret else value)
        if isinstance(value, Mapping):
            return {self._without_keys(key): self._without_keys(item) for key, item in value.items()}
        return type(value)(self._without_keys(item) for item in value) if isinstance(value, list | tuple) else value


class RecordingChatModel(BaseChatModel):
    """Passes every call on to `inner`, and takes the answer down on `tape`. A call that fails is not recorded."""

    inner: BaseChatModel
    tape: Tape
    bound: Runnable[LanguageModelInput, AIMessage] | None = None
    """`inner` with its tools."""
    tools: tuple[Json, ...] = ()
    settings: Json = {}

    @property
    def _llm_type(self) -> str:
        return "fanfold-recording"

    def bind_tools(
        self, tools: Sequence[ToolLike], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A copy on the same tape, whose inner model has the tools."""
        bound = self.inner.bind_tools(tools, tool_choice=tool_choice, **kwargs)
        settings = {"tool_choice": tool_choice, **kwargs}
        return self.model_copy(update={"bound": bound, "tools": describe_tools(tools), "settings": settings})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._taken_down(messages, stop, kwargs, self._target.invoke(messages, stop=stop, **kwargs))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._taken_down(messages, stop, kwargs, await self._target.ainvoke(messages, stop=stop, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        whole: AIMessageChunk | None = None
        for message in self._target.stream(messages, stop=stop, **kwargs):
            chunk = as_chunk(message)
            whole = chunk if whole is None else whole + chunk
            yield ChatGenerationChunk(message=chunk)
        self._taken_down(messages, stop, kwargs, whole)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        whole: AIMessageChunk | None = None
        async for message in self._target.astream(messages, stop=stop, **kwargs):
            chunk = as_chunk(message)
            whole = chunk if whole is None else whole + chunk
            yield ChatGenerationChunk(message=chunk)
        self._taken_down(messages, stop, kwargs, whole)

    @property
    def _target(self) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bound or self.inner

    def _taken_down(
        self, messages: list[BaseMessage], stop: list[str] | None, extra: Json, answer: BaseMessage | None
    ) -> ChatResult:
        """Record the answer to a request; it is returned as a result."""
        if answer is None:
            raise InfrastructureError("the model that is recorded ended its answer without saying anything")
        message = cast(AIMessage, message_chunk_to_message(answer) if isinstance(answer, AIMessageChunk) else answer)
        self.tape.add(self.tape.normalized(messages, self.tools, stop, {**self.settings, **extra}), message)
        return ChatResult(generations=[ChatGeneration(message=message)])


class ReplayChatModel(BaseChatModel):
    """Answers from a cassette. Raises `TaskFailed` for a request that is not on it."""

    deck: Deck
    tools: tuple[Json, ...] = ()
    settings: Json = {}

    @property
    def _llm_type(self) -> str:
        return "fanfold-replay"

    def bind_tools(
        self, tools: Sequence[ToolLike], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A copy on the same cassette that asks with the tools."""
        settings = {"tool_choice": tool_choice, **kwargs}
        return self.model_copy(update={"tools": describe_tools(tools), "settings": settings})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        request = normalize(messages, self.tools, stop, {**self.settings, **kwargs})
        return ChatResult(generations=[ChatGeneration(message=_as_message(self.deck.answer(request)))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        result = self._generate(messages, stop, run_manager, **kwargs)
        yield ChatGenerationChunk(message=as_chunk(result.generations[0].message))


def _as_response(message: AIMessage) -> Response:
    """What of an answer goes on tape."""
    metadata = {key: message.response_metadata[key] for key in _METADATA if isinstance(message.response_metadata.get(key), str)}
    return Response(
        content=json.loads(json.dumps(message.content, default=str)),
        tool_calls=[{"id": call["id"], "name": call["name"], "args": call["args"]} for call in message.tool_calls],
        usage={key: value for key, value in (message.usage_metadata or {}).items() if value},
        metadata=metadata,
    )


def _as_message(response: Response) -> AIMessage:
    calls = [ToolCall(name=c["name"], args=c["args"], id=c.get("id"), type="tool_call") for c in response.tool_calls]
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, **response.usage} if response.usage else None
    return AIMessage(
        response.content,
        tool_calls=calls,
        usage_metadata=cast(UsageMetadata | None, usage),
        response_metadata=dict(response.metadata),
    )


def as_chunk(message: BaseMessage) -> AIMessageChunk:
    """A message as the only chunk of its stream; a chunk as it is. (A model that cannot stream gives its message whole.)"""
    if isinstance(message, AIMessageChunk) or not isinstance(message, AIMessage):
        return cast(AIMessageChunk, message)
    chunks = [
        tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=index)
        for index, call in enumerate(message.tool_calls)
    ]
    return AIMessageChunk(
        content=message.content,
        tool_call_chunks=chunks,
        usage_metadata=message.usage_metadata,
        response_metadata=message.response_metadata,
        chunk_position="last",
    )
