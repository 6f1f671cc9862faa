"""What an agent did is told once, also when it goes on in another process."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from orchestrator.agent.transcript import Transcript

ANSWER = AIMessage(
    "I look",
    id="m1",
    tool_calls=[{"id": "c1", "name": "ls", "args": {}}],
    usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
)
RESULT = ToolMessage("nothing", tool_call_id="c1", name="ls")
WHOLE = ["model.message", "tool.call", "tool.result"]


def transcript(told: list[tuple[str, dict[str, Any]]] = []) -> tuple[Transcript, list[tuple[str, dict[str, Any]]]]:  # noqa: B006
    events: list[tuple[str, dict[str, Any]]] = []
    return Transcript(lambda kind, data: events.append((kind, data)), told), events


def test_what_was_caught_up_with_is_not_told_again_when_the_graph_reports_it_once_more() -> None:
    """langgraph reports what a step had noted before its process died, though that is in the state already."""
    made, events = transcript()
    made.catch_up([ANSWER, RESULT])
    made.take({"model": {"messages": [ANSWER]}})
    made.take({"tools": {"messages": [RESULT]}})
    assert [kind for kind, _ in events] == WHOLE
    assert (made.steps, made.usage["total_tokens"], made.text) == (1, 5, "I look")


def test_what_another_process_told_is_counted_and_not_told_again() -> None:
    first, told = transcript()
    first.take({"model": {"messages": [ANSWER]}})
    second, events = transcript(told)
    second.catch_up([ANSWER])
    second.take({"tools": {"messages": [RESULT]}})
    assert [kind for kind, _ in told + events] == WHOLE
    assert second.steps == 1


def test_calls_of_different_answers_may_have_the_same_id() -> None:
    made, events = transcript()
    for answer in ("m1", "m2"):
        made.take({"model": {"messages": [ANSWER.model_copy(update={"id": answer})]}})
        made.take({"tools": {"messages": [RESULT]}})
    assert [kind for kind, _ in events] == WHOLE * 2
