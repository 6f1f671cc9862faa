"""The plan: langchain's, without its step of the graph."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import HumanMessage, ToolMessage

from orchestrator.agent.harness.todos import TODO_PROMPT, Todos, ToldTodos

GO: Any = {"messages": [HumanMessage("go")]}
ONE = ("write_todos", {"todos": [{"content": "one", "status": "pending"}]})
TWO = ("write_todos", {"todos": [{"content": "two", "status": "completed"}]})


@pytest.mark.parametrize("later", [False, True])
def test_a_list_replaces_the_one_before(scripted: Any, later: bool) -> None:
    agent = create_agent(scripted([ONE], [TWO]), middleware=[Todos()])
    state = asyncio.run(agent.ainvoke(GO)) if later else agent.invoke(GO)
    assert state["todos"] == TWO[1]["todos"]


@pytest.mark.parametrize("later", [False, True])
def test_two_lists_in_one_answer_are_both_refused(scripted: Any, later: bool) -> None:
    agent = create_agent(scripted([ONE, TWO]), middleware=[Todos()])
    state = asyncio.run(agent.ainvoke(GO)) if later else agent.invoke(GO)
    told = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert [message.status for message in told] == ["error", "error"]
    assert "todos" not in state


def test_it_takes_no_step_of_the_graph_and_the_place_of_langchains(scripted: Any) -> None:
    nodes = create_agent(scripted(), middleware=[Todos()]).get_graph().nodes
    assert set(nodes) == {"__start__", "model", "tools", "__end__"}
    assert Todos().name == TodoListMiddleware().name


def test_the_prompt_is_said_once(scripted: Any) -> None:
    def prompt(middleware: Any, given: str) -> str:
        said: list[Any] = []
        model = scripted()

        class Listening(type(model)):  # type: ignore[misc]
            def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
                said.append(messages[0].text)
                return super()._generate(messages, *args, **kwargs)

        create_agent(Listening(script=model.script), system_prompt=given, middleware=[middleware]).invoke(GO)
        return str(said[0])

    assert prompt(Todos(), "Go.") == f"Go.\n\n{TODO_PROMPT}"
    assert prompt(ToldTodos(), "Go.") == "Go."
