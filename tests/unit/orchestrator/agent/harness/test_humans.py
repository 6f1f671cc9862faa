"""A human decides about tool calls: which requests come, what each decision does, and answers that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from orchestrator.agent.harness import humans
from orchestrator.agent.harness.humans import human_in_the_loop
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.errors import BadInput

CONFIG: Any = {"configurable": {"thread_id": "1"}}
TWO_CALLS = b"""turns:
  - tool_calls:
      - {id: a, name: send, args: {to: ann}}
      - {id: b, name: look, args: {at: sky}}
      - {id: c, name: send, args: {to: bob}}
  - text: done
"""


class Desk:
    """Tools that keep what they did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[BaseTool]:
        @tool
        def send(to: str) -> str:
            """Send a letter."""
            self.done.append(f"send {to}")
            return f"sent to {to}"

        @tool
        def look(at: str) -> str:
            """Look at something."""
            self.done.append(f"look {at}")
            return f"saw {at}"

        return [send, look]

    def agent(self, interrupt_on: Any, *, durable: bool = True) -> Any:
        model = ScriptedChatModel(script=load_script(TWO_CALLS, "s"))
        middleware: Any = human_in_the_loop(interrupt_on)
        return create_agent(model, self.tools(), middleware=middleware, checkpointer=InMemorySaver() if durable else None)


def ask() -> dict[str, Any]:
    return {"messages": [HumanMessage("Go.")]}


def decide(*decisions: Any) -> Command[Any]:
    return Command(resume={"decisions": list(decisions)})


def results(state: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {m.tool_call_id: (m.status, str(m.text)) for m in state["messages"] if isinstance(m, ToolMessage)}


APPROVE = {"type": "approve"}


def test_one_request_holds_all_gated_calls_and_nothing_runs_before_the_answer() -> None:
    desk = Desk()
    paused = desk.agent({"send": True}).invoke(ask(), CONFIG)
    (pause,) = paused["__interrupt__"]
    assert [action["args"] for action in pause.value["action_requests"]] == [{"to": "ann"}, {"to": "bob"}]
    assert pause.value["review_configs"][0] == {"action_name": "send", "allowed_decisions": list(humans.DECISIONS)}
    assert desk.done == []


async def test_what_is_approved_runs_once_and_so_does_what_nobody_is_asked_about() -> None:
    desk = Desk()
    agent = desk.agent({"send": True, "look": False})
    await agent.ainvoke(ask(), CONFIG)
    state = await agent.ainvoke(decide(APPROVE, APPROVE), CONFIG)
    assert sorted(desk.done) == ["look sky", "send ann", "send bob"]
    assert state["messages"][-1].text == "done"


def test_an_edit_runs_with_other_arguments_and_a_rejection_tells_the_model_why() -> None:
    desk = Desk()
    agent = desk.agent({"send": True})
    agent.invoke(ask(), CONFIG)
    edit = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "eve"}}}
    state = agent.invoke(decide(edit, {"type": "reject", "message": "bob is away"}), CONFIG)
    assert sorted(desk.done) == ["look sky", "send eve"]
    assert "sent to eve" in results(state)["a"][1]
    status, told = results(state)["c"]
    assert status == "error"
    assert "bob is away" in told


def test_a_response_stands_in_for_the_tool() -> None:
    desk = Desk()
    agent = desk.agent({"send": True})
    agent.invoke(ask(), CONFIG)
    state = agent.invoke(decide({"type": "respond", "message": "I told ann myself"}, APPROVE), CONFIG)
    assert results(state)["a"] == ("success", "I told ann myself")
    assert sorted(desk.done) == ["look sky", "send bob"]


def test_a_configuration_says_which_decisions_are_allowed_and_what_is_shown() -> None:
    desk = Desk()
    rule = {
        "allowed_decisions": ["approve", "reject"],
        "description": lambda call, state, runtime: f"A letter to {call['args']['to']}",
        "when": lambda request: request.tool_call["args"]["to"] == "bob",
    }
    agent = desk.agent({"send": rule})
    (pause,) = agent.invoke(ask(), CONFIG)["__interrupt__"]
    assert [action["description"] for action in pause.value["action_requests"]] == ["A letter to bob"]
    agent.invoke(decide({"type": "reject"}), CONFIG)
    assert sorted(desk.done) == ["look sky", "send ann"]


@pytest.mark.parametrize(
    "answer",
    [
        True,
        {"decisions": None},
        {"decisions": [APPROVE]},
        {"decisions": [APPROVE, "approve"]},
        {"decisions": [APPROVE, {}]},
        {"decisions": [APPROVE, {"type": "reject"}]},
        {"decisions": [APPROVE, {"type": "respond"}]},
        {"decisions": [APPROVE, {"type": "edit"}]},
        {"decisions": [APPROVE, {"type": "edit", "edited_action": {"name": "send", "args": "bob"}}]},
        {"decisions": [APPROVE, {"type": "edit", "edited_action": {"name": "look", "args": {"at": "bob"}}}]},
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(answer: Any) -> None:
    desk = Desk()
    agent = desk.agent({"send": {"allowed_decisions": ["approve", "edit", "respond"]}})
    (first,) = agent.invoke(ask(), CONFIG)["__interrupt__"]
    for _ in range(2):
        (again,) = agent.invoke(Command(resume=answer), CONFIG)["__interrupt__"]
        assert "the last answer does not fit" in again.value["problem"]
        assert again.value["action_requests"] == first.value["action_requests"]
    assert desk.done == []
    state = agent.invoke(decide(APPROVE, APPROVE), CONFIG)
    assert sorted(desk.done) == ["look sky", "send ann", "send bob"]
    assert state["messages"][-1].text == "done"


def test_an_agent_without_a_checkpointer_does_not_start() -> None:
    with pytest.raises(BadInput, match=r"interrupt_on names send.*checkpointer"):
        Desk().agent({"send": True}, durable=False).invoke(ask())


async def test_an_async_agent_without_a_checkpointer_does_not_start() -> None:
    with pytest.raises(BadInput, match="checkpointer"):
        await Desk().agent({"send": True}, durable=False).ainvoke(ask())


def test_nothing_to_ask_about_needs_no_middleware() -> None:
    assert human_in_the_loop(None) == human_in_the_loop({}) == human_in_the_loop({"send": False}) == []


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("yes", "give True, False or"),
        ({"allow_accept": True}, "unknown allow_accept"),
        ({}, "allowed_decisions is a list of approve, edit, reject, respond"),
        ({"allowed_decisions": []}, "it is \\[\\]"),
        ({"allowed_decisions": "approve"}, "it is 'approve'"),
        ({"allowed_decisions": ["aprove"]}, "aprove"),
    ],
    ids=str,
)
def test_a_configuration_that_nobody_could_answer_is_refused(config: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        human_in_the_loop({"send": config})


def test_a_gate_before_a_tool_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no tool is called sned; there are look, send"):
        human_in_the_loop({"sned": True, "send": True}, known=["send", "look"])
    assert human_in_the_loop({"send": True, "gone": False}, known={"send"})


def test_a_function_of_the_configuration_that_fails_is_not_taken_for_a_wrong_answer() -> None:
    def when(request: Any) -> bool:
        raise ValueError("no such key")

    agent = Desk().agent({"send": {"allowed_decisions": ["approve"], "when": when}})
    with pytest.raises(RuntimeError, match=r"interrupt_on\['send'\]: its when failed: ValueError: no such key"):
        agent.invoke(ask(), CONFIG)
