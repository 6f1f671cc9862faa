"""Histories that no provider would accept, and answers that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelCallLimitMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from orchestrator.agent.harness.repair import CANCELLED, MalformedToolCalls, PatchToolCallsMiddleware, repaired


class Says(GenericFakeChatModel):
    """Says these messages, one after the other, and keeps what it was shown."""

    shown: list[Any] = []

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.shown.append(list(messages))
        return super()._generate(messages, *args, **kwargs)


def says(*messages: AIMessage) -> Says:
    return Says(messages=iter(messages), shown=[])


@tool
def note(text: str) -> str:
    """Note a text."""
    return f"noted {text}"


def calling(*ids: str | None, text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": "note", "args": {"text": "x"}, "id": key} for key in ids])


def broken(key: str | None = "b", args: str | None = '{"text": "unfini', name: str | None = "note") -> AIMessage:
    return AIMessage("", invalid_tool_calls=[{"name": name, "args": args, "id": key, "error": "cut"}])


def result(key: str, text: str = "noted") -> ToolMessage:
    return ToolMessage(text, tool_call_id=key)


def outline(messages: list[Any]) -> list[str]:
    return [f"{m.type}:{m.tool_call_id if isinstance(m, ToolMessage) else m.text}" for m in messages]


def test_a_whole_history_stays_the_same_objects() -> None:
    history = [SystemMessage("s"), HumanMessage("q"), calling("a", "b"), result("b"), result("a"), AIMessage("done")]
    assert all(one is other for one, other in zip(repaired(history), history, strict=True))


def test_a_call_without_a_result_gets_an_error_right_after_it_wherever_it_is() -> None:
    history = [HumanMessage("q"), calling("a"), HumanMessage("never mind"), calling("b"), result("b"), calling("c")]
    mended = repaired(history)
    assert outline(mended) == ["human:q", "ai:", "tool:a", "human:never mind", "ai:", "tool:b", "ai:", "tool:c"]
    assert mended[2] == ToolMessage(CANCELLED, name="note", tool_call_id="a", status="error")


def test_results_that_are_there_stay_and_only_the_missing_ones_are_filled_in() -> None:
    mended = repaired([calling("a", "b", "c"), result("b", "kept")])
    assert outline(mended) == ["ai:", "tool:b", "tool:a", "tool:c"]
    assert mended[1].text == "kept"


def test_an_id_that_an_earlier_answer_used_too_does_not_count_as_answered() -> None:
    mended = repaired([calling("1"), result("1", "first"), HumanMessage("go on"), calling("1")])
    assert outline(mended) == ["ai:", "tool:1", "human:go on", "ai:", "tool:1"]
    assert mended[-1].text == CANCELLED


def test_a_result_that_comes_late_is_brought_up_to_its_call() -> None:
    mended = repaired([calling("a"), HumanMessage("hurry"), AIMessage("yes"), result("a", "late")])
    assert outline(mended) == ["ai:", "tool:a", "human:hurry", "ai:yes"]
    assert mended[1].text == "late"


def test_a_result_that_answers_nothing_and_a_second_result_are_left_out() -> None:
    mended = repaired([result("gone"), HumanMessage("q"), calling("a"), result("a", "one"), result("a", "two")])
    assert outline(mended) == ["human:q", "ai:", "tool:a"]
    assert mended[-1].text == "one"


def test_calls_without_an_id_and_with_the_same_id_get_ids_of_their_own() -> None:
    mended = repaired([calling(None, "", "x", "x")])
    ids = [call["id"] for call in mended[0].tool_calls]  # type: ignore[attr-defined]
    assert ids[2] == "x"
    assert all(ids)
    assert len(set(ids)) == 4
    assert [m.tool_call_id for m in mended[1:]] == ids  # type: ignore[attr-defined]


def test_a_call_that_could_not_be_read_is_answered_too() -> None:
    mended = repaired([HumanMessage("q"), broken(), HumanMessage("and?")])
    assert outline(mended) == ["human:q", "ai:", "tool:b", "human:and?"]
    assert "not a JSON object" in mended[2].text
    assert "unfini" in mended[2].text


def test_mending_twice_changes_nothing_more() -> None:
    once = repaired([result("z"), calling(None, "a"), broken(None), HumanMessage("q"), result("a")])
    assert all(one is other for one, other in zip(repaired(once), once, strict=True))


async def test_an_agent_starts_with_a_mended_history_and_keeps_it() -> None:
    model = says(AIMessage("hello"), AIMessage("again"))
    agent = create_agent(model, [note], middleware=[PatchToolCallsMiddleware()], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    history = [HumanMessage("q"), calling("a"), HumanMessage("stop")]
    state = await agent.ainvoke({"messages": history}, config)
    assert outline(state["messages"]) == ["human:q", "ai:", "tool:a", "human:stop", "ai:hello"]
    assert outline(model.shown[0]) == ["human:q", "ai:", "tool:a", "human:stop"]
    state = agent.invoke({"messages": [HumanMessage("more")]}, config)
    assert outline(state["messages"])[5:] == ["human:more", "ai:again"]


def test_an_answer_with_nothing_but_a_broken_call_does_not_end_the_agent() -> None:
    model = says(broken(), calling("ok"), AIMessage("done"))
    agent = create_agent(model, [note], middleware=[PatchToolCallsMiddleware()])
    state = agent.invoke({"messages": [HumanMessage("q")]})
    assert outline(state["messages"]) == ["human:q", "ai:", "tool:b", "ai:", "tool:ok", "ai:done"]
    assert state["messages"][2].status == "error"
    assert state["messages"][4].text == "noted x"
    assert outline(model.shown[1]) == ["human:q", "ai:", "tool:b"]


async def test_the_async_form_asks_again_too() -> None:
    agent = create_agent(
        says(broken(None), broken("c", None, None), AIMessage("done")), [], middleware=[PatchToolCallsMiddleware()]
    )
    state = await agent.ainvoke({"messages": [HumanMessage("q")]})
    told = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert len(told) == 2
    assert told[0].tool_call_id == state["messages"][1].invalid_tool_calls[0]["id"]
    assert told[1].name == "unknown"
    assert state["messages"][-1].text == "done"


def test_the_calls_that_can_be_read_run_beside_one_that_cannot() -> None:
    both = calling("ok")
    both.invalid_tool_calls = broken().invalid_tool_calls
    agent = create_agent(says(both, AIMessage("done")), [note], middleware=[PatchToolCallsMiddleware()])
    state = agent.invoke({"messages": [HumanMessage("q")]})
    assert outline(state["messages"]) == ["human:q", "ai:", "tool:b", "tool:ok", "ai:done"]


def test_a_call_without_an_id_runs() -> None:
    agent = create_agent(says(calling(None), AIMessage("done")), [note], middleware=[PatchToolCallsMiddleware()])
    state = agent.invoke({"messages": [HumanMessage("q")]})
    assert state["messages"][2].text == "noted x"
    assert state["messages"][2].tool_call_id == state["messages"][1].tool_calls[0]["id"]


def test_a_model_that_never_gets_a_call_right_is_given_up() -> None:
    model = says(*[broken(args="{" * 2000)] * 5)
    agent = create_agent(model, [note], middleware=[PatchToolCallsMiddleware()])
    with pytest.raises(MalformedToolCalls, match="could not be read 3 times in a row") as told:
        agent.invoke({"messages": [HumanMessage("q")]})
    assert len(model.shown) == 3
    assert len(str(told.value)) < 1500


def test_other_middleware_sees_every_turn_once() -> None:
    limit: Any = ModelCallLimitMiddleware(run_limit=2, exit_behavior="error")
    for order in ([limit, PatchToolCallsMiddleware()], [PatchToolCallsMiddleware(), limit]):
        agent = create_agent(says(broken(), calling("a"), broken(), AIMessage("done")), [note], middleware=order)
        assert agent.invoke({"messages": [HumanMessage("q")]})["messages"][-1].text == "done"
