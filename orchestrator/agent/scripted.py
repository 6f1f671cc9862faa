"""A chat model that follows a script: for demonstrations, and for testing everything around a model without one.

It keeps no state. Which turn comes next is read off the conversation, so a run that is taken over by another worker goes on
where it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from orchestrator.agent.render import clip
from orchestrator.agent.script import Expectation, Part, Script, SubagentPart, Turn
from orchestrator.agent.templates import Renderer, Result, TemplateError, parse_template
from orchestrator.errors import TaskFailed

SEEN_CAP = 2000
"""Characters of a result that a failed expectation shows."""

_TURN = "scripted_turn"
"""Key of an answer's `response_metadata` that holds the number of its turn, from 1."""
_PART = "scripted_part"
"""The same for the part of the script that it is from, in the order of `subagents`, from 1; 0 is the `turns` at the top."""

SUMMARY = "(A script does not sum up. The earlier conversation is in the file that is named here.)"
"""What it says when it is asked for a summary: no turn of the script is used up for that."""


class ScriptedChatModel(BaseChatModel):
    """Answers with the turns of its script, one after the other. Raises `TaskFailed` where the script does not fit."""

    script: Script
    file: str = "script.yaml"
    """How messages name the script."""

    @property
    def _llm_type(self) -> str:
        return "fanfold-scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A script names its tools itself, so nothing is bound."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if run_manager is not None and (run_manager.metadata or {}).get("lc_source") == "summarization":
            return ChatResult(generations=[ChatGeneration(message=AIMessage(SUMMARY))])
        number = self._part(messages)
        part = (self.script, *self.script.subagents)[number]
        of = f"{self.file}, of {part.when!r}" if isinstance(part, SubagentPart) else self.file
        index = _turns_taken(messages)
        where = f"{of}, turn {index + 1}"
        if index >= len(part.turns):
            turns = len(part.turns)
            raise TaskFailed(f"{of} ran out after {turns} turn{'s' * (turns != 1)}: the agent asked for another")
        try:
            answer = _answer(part, index, messages, where)
        except TemplateError as exc:
            raise TaskFailed(f"{where}: {exc}") from exc
        answer.response_metadata[_PART] = number
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _part(self, messages: list[BaseMessage]) -> int:
        """The part that this conversation follows: the one it began with, though what it began with was summed up."""
        last = _last_answer(messages)
        if last is not None and _turn(last):
            return int(last.response_metadata.get(_PART, 0))
        prompt = _prompt(messages)
        renderer = Renderer(prompt, {})
        for number, part in enumerate(self.script.subagents, start=1):
            try:
                if renderer.search(part.when, prompt):
                    return number
            except TemplateError as exc:
                raise TaskFailed(f"{self.file}, of {part.when!r}: {exc}") from exc
        return 0


def _answer(part: Part, index: int, messages: list[BaseMessage], where: str) -> AIMessage:
    turn = part.turns[index]
    results = {m.tool_call_id: Result(str(m.text), m.status) for m in messages if isinstance(m, ToolMessage)}
    renderer = Renderer(_prompt(messages), results)
    for expectation in turn.expect:
        _check(expectation, _shown_since(messages, expectation, results), renderer, where)
    calls = [
        ToolCall(name=call.name, args=_filled(call.args, renderer), id=call_id, type="tool_call")
        for call, call_id in zip(turn.tool_calls, part.call_ids(index), strict=True)
    ]
    return AIMessage(
        renderer.render(parse_template(turn.text)),
        tool_calls=calls,
        usage_metadata=_usage(turn),
        response_metadata={_TURN: index + 1},
    )


def of_other_scripts(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """What was said in earlier runs of a thread: no turn of it is this script's."""
    messages = list(messages)
    for message in messages:
        message.response_metadata.pop(_TURN, None)
    return messages


def _turns_taken(messages: list[BaseMessage]) -> int:
    last = _last_answer(messages)
    return 0 if last is None else _turn(last)


def _last_answer(messages: list[BaseMessage]) -> AIMessage | None:
    return next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)


def _turn(message: BaseMessage) -> int:
    return int(message.response_metadata.get(_TURN, 0))


def _prompt(messages: list[BaseMessage]) -> str:
    """What was said last before this script began."""
    begun = next((index for index, message in enumerate(messages) if _turn(message)), len(messages))
    return next((str(m.text) for m in reversed(messages[:begun]) if isinstance(m, HumanMessage)), "")


def _usage(turn: Turn) -> UsageMetadata | None:
    if turn.usage is None:
        return None
    given, made = turn.usage.input_tokens, turn.usage.output_tokens
    return UsageMetadata(input_tokens=given, output_tokens=made, total_tokens=given + made)


def _filled(value: Any, renderer: Renderer) -> Any:
    if isinstance(value, str):
        return renderer.render(parse_template(value))
    if isinstance(value, dict):
        return {key: _filled(item, renderer) for key, item in value.items()}
    return [_filled(item, renderer) for item in value] if isinstance(value, list) else value


def _shown_since(messages: list[BaseMessage], expectation: Expectation, results: dict[str, Result]) -> dict[str, Result]:
    """What an expectation is about, by name: a result, all results since the last answer, or the prompt."""
    if expectation.result:
        found = results.get(expectation.result)
        if found is None:
            raise TemplateError(f"the tool call '{expectation.result}' has no result")
        return {f"the result of '{expectation.result}'": found}
    last = max((i for i, m in enumerate(messages) if isinstance(m, AIMessage)), default=-1)
    if last < 0 or not _turn(messages[last]):
        return {"the prompt": Result(_prompt(messages), "success")}
    new = [m.tool_call_id for m in messages[last:] if isinstance(m, ToolMessage)]
    return {f"the result of '{key}'": results[key] for key in new}


def _check(expectation: Expectation, seen: dict[str, Result], renderer: Renderer, where: str) -> None:
    """Raise `TaskFailed` when the expectation does not hold."""
    all_of = list(seen.values())
    for text in expectation.contains:
        if not any(text in one.text for one in all_of):
            raise _failed(where, f"to contain {_quoted(text)}", seen)
    for text in expectation.not_contains:
        if any(text in one.text for one in all_of):
            raise _failed(where, f"not to contain {_quoted(text)}", seen)
    for pattern in expectation.matches:
        if not any(renderer.search(pattern, one.text) for one in all_of):
            raise _failed(where, f"to match {pattern!r}", seen)
    if expectation.status and any(one.status != expectation.status for one in all_of):
        raise _failed(where, f"to have the status '{expectation.status}'", seen)


def _quoted(text: str) -> str:
    return clip(json.dumps(text, ensure_ascii=False), SEEN_CAP)


def _failed(where: str, expected: str, seen: dict[str, Result]) -> TaskFailed:
    names = " or ".join(seen) or "a result"
    shown = "\n".join(f"--- {name} ({one.status}):\n{one.text}" for name, one in seen.items())
    return TaskFailed(f"{where}: expected {names} {expected}; what came was:\n{clip(shown, SEEN_CAP)}")
