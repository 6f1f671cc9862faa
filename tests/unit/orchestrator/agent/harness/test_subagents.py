"""What a subagent is made of, what it is given, and what comes back of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from pydantic import BaseModel

from orchestrator.agent.harness.subagent_task import NO_REPORT
from orchestrator.agent.harness.subagents import TASK_SYSTEM_PROMPT, SubAgentMiddleware
from tests.unit.orchestrator.agent.harness.delegating import Writes, agent, ask, calls, model, results, says, spec, task


@tool
def look() -> str:
    """Look around."""
    return "seen"


class Tagged(AgentMiddleware[Any, Any, Any]):
    """Adds its tag to the end of each answer."""

    def __init__(self, tag: str, name: str) -> None:
        self.tag = tag
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        response = handler(request)
        return AIMessage(f"{response.result[0].text}{self.tag}")


def test_a_subagent_sees_its_task_alone_and_its_report_is_the_result() -> None:
    worker = says("It is 42.")
    state = agent(calls(task("t", "worker", "Find the number.")), spec("worker", worker)).invoke(ask("A secret story."))
    assert results(state) == {"t": ("success", "It is 42.")}
    assert [(m.type, m.text) for m in worker.shown[0]] == [("system", "You are worker."), ("human", "Find the number.")]
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "ai"]


async def test_a_subagent_begins_afresh_each_time() -> None:
    worker = says("Hello.")
    lead = agent(calls(task("a", "worker", "One."), task("b", "worker", "Two.")), spec("worker", worker))
    await lead.ainvoke(ask())
    assert sorted(shown[-1].text for shown in worker.shown) == ["One.", "Two."]
    assert all(len(shown) == 2 for shown in worker.shown)


def test_the_report_is_the_last_thing_it_said_with_words_in_it() -> None:
    given = {"messages": [AIMessage("The findings."), AIMessage("  \n"), AIMessage("")]}
    lead = agent(calls(task("t", "one")), {"name": "one", "description": "x", "runnable": RunnableLambda(lambda state: given)})
    assert results(lead.invoke(ask()))["t"] == ("success", "The findings.")


def test_a_subagent_that_says_nothing_is_told_of() -> None:
    assert results(agent(calls(task("t", "mute")), spec("mute", says(""))).invoke(ask()))["t"] == ("success", NO_REPORT)


def test_a_response_format_makes_the_report_json() -> None:
    class Findings(BaseModel):
        count: int
        where: str

    worker = calls(("f", "Findings", {"count": 3, "where": "Zürich"}))
    lead = agent(calls(task("t", "worker")), spec("worker", worker, response_format=ToolStrategy(Findings)))
    assert json.loads(results(lead.invoke(ask()))["t"][1]) == {"count": 3, "where": "Zürich"}


def test_an_unknown_subagent_is_an_error_that_lists_those_there_are() -> None:
    lead = agent(calls(task("t", "wroker")), spec("worker", says("x")), spec("writer", says("x")))
    told = "Error: there is no subagent 'wroker': subagent_type is one of worker, writer"
    assert results(lead.invoke(ask()))["t"] == ("error", told)


@pytest.mark.parametrize("args", [{"subagent_type": "worker"}, {"subagent_type": "worker", "description": "", "prompt": "x"}])
def test_arguments_that_do_not_fit_are_an_error_of_the_call(args: dict[str, Any]) -> None:
    status, told = results(agent(calls(("t", "task", args)), spec("worker", says("x"))).invoke(ask()))["t"]
    assert status == "error"
    assert "description" in told


# -- what it is made of


def test_the_general_purpose_subagent_has_the_tools_and_the_model_of_the_main_agent() -> None:
    lead = calls(task("t", "general-purpose"))
    agent(lead, general_purpose_agent=True, default_tools=[look]).invoke(ask())
    assert [m.type for m in lead.shown[1]] == ["system", "human"]
    assert lead.tools == ["task"]


def test_a_subagent_of_that_name_takes_the_place_of_the_general_one() -> None:
    own = spec("general-purpose", says("mine"))
    lead = agent(calls(task("t", "general-purpose")), own, general_purpose_agent=True)
    assert results(lead.invoke(ask()))["t"] == ("success", "mine")


def test_a_subagent_has_the_default_tools_or_its_own_and_no_task() -> None:
    plain, own = says("x"), says("x")

    @tool
    def smell() -> str:
        """Smell."""
        return "nothing"

    lead = calls(task("a", "plain"), task("b", "own"), task("c", "none"))
    none = says("x")
    subagents = [spec("plain", plain), spec("own", own, tools=[smell]), spec("none", none, tools=[])]
    agent(lead, *subagents, default_tools=[look]).invoke(ask())
    assert (plain.tools, own.tools, none.tools) == (["look"], ["smell"], [])


def test_a_model_may_be_a_name_or_arguments_too() -> None:
    by_name = spec("a", "openai:gpt-4o")
    by_arguments = spec("b", {"model": "gpt-4o", "model_provider": "openai", "api_key": "x"})
    with pytest.MonkeyPatch.context() as env:
        env.setenv("OPENAI_API_KEY", "x")
        assert SubAgentMiddleware(default_model=says("x"), subagents=[by_name, by_arguments]).subagent_names >= {"a", "b"}


def test_default_middleware_comes_first_and_one_of_the_same_name_takes_its_place() -> None:
    common = [Tagged(" A", "a"), Tagged(" B", "b")]
    own = spec("own", says("x"), middleware=[Tagged(" C", "c"), Tagged(" AA", "a")])
    lead = calls(task("p", "plain"), task("o", "own"))
    found = results(agent(lead, spec("plain", says("x")), own, default_middleware=common).invoke(ask()))
    assert found["p"][1] == "x B A"
    assert found["o"][1] == "x C B AA"


def test_middleware_may_be_made_for_each_subagent() -> None:
    def made(subagent: Any) -> list[Any]:
        return [Tagged(f" {subagent.get('skills', 'none')}", "a")]

    found = agent(calls(task("t", "one")), spec("one", says("x"), skills=["/s/"]), default_middleware=made).invoke(ask())
    assert results(found)["t"][1] == "x ['/s/']"


def test_the_older_name_of_the_prompt_works() -> None:
    worker = says("x")
    agent(calls(task("t", "old")), {"name": "old", "description": "d", "prompt": "Be old.", "model": worker}).invoke(ask())
    assert worker.shown[0][0].text == "Be old."


@pytest.mark.parametrize(
    ("subagents", "told"),
    [
        ([{"description": "d"}], "None has no name"),
        ([{"name": "  ", "description": "d"}], "has no name"),
        ([{"name": "a"}], "'a' has no description: the main agent chooses by it"),
        ([spec("a", "m", modle="x")], "'a' has unknown keys: modle; there are name, description, system_prompt"),
        ([spec("a", None), spec("a", None)], "two subagents called 'a'"),
        ([spec("a", None, prompt="x")], "keep system_prompt"),
        (["a"], "is a dictionary with name, description and system_prompt, not 'a'"),
        ([{"name": "a", "description": "d", "runnable": print}], "give a compiled graph or another Runnable"),
        ([{"name": "a", "description": "d", "runnable": RunnableLambda(print), "tools": []}], "unknown keys: tools"),
        ([spec("a", says("x"), interrupt_on={"look": {"allowed_decisions": []}})], "allowed_decisions is a list"),
        ([spec("a", says("x"), skills=["/s/"], permissions=[1])], "has skills and permissions, which a fixed list"),
        ([], "there is no subagent"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_specification_that_is_wrong_is_refused_with_what_to_do(subagents: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SubAgentMiddleware(default_model=says("x"), subagents=subagents, general_purpose_agent=False)


# -- what the main agent's model is told


def test_the_tool_lists_the_subagents_and_the_prompt_of_the_agent_gains_a_few_words() -> None:
    lead = says("x")
    agent(lead, spec("worker", says("x")), general_purpose_agent=True).invoke(ask())
    assert lead.shown[0][0].text == f"You lead.\n\n{TASK_SYSTEM_PROMPT}"
    (tool,) = SubAgentMiddleware(default_model=lead, subagents=[spec("worker", says("x"))]).tools
    assert "- general-purpose: " in tool.description
    assert "- worker: Does worker." in tool.description


def test_a_system_prompt_replaces_that_of_the_agent_and_none_leaves_it() -> None:
    for given, shown in (("Only this.", "Only this."), (None, "You lead.")):
        lead = says("x")
        agent(lead, spec("worker", says("x")), system_prompt=given).invoke(ask())
        assert lead.shown[0][0].text == shown


def test_the_description_of_the_tool_can_be_given() -> None:
    given = SubAgentMiddleware(default_model=says("x"), task_description="Delegate {x} to:\n{subagents}")
    assert given.tools[0].description.startswith("Delegate {x} to:\n- general-purpose: ")


# -- state


def test_a_subagent_is_given_the_state_without_what_is_the_main_agents_own() -> None:
    inside = Writes(lambda state: {})
    lead = agent(calls(task("t", "worker")), spec("worker", says("x"), middleware=[inside]))
    lead.invoke(ask(files={"/a": 1}, note="n", todos=["t"], secret="s", _hidden="h"))
    (seen,) = inside.seen
    assert {key: seen.get(key) for key in ("files", "note", "todos", "secret", "_hidden")} == {
        "files": {"/a": 1}, "note": "n", "todos": None, "secret": None, "_hidden": None,
    }  # fmt: skip


def test_a_runnable_is_not_given_private_keys_either() -> None:
    seen: dict[str, Any] = {}

    def work(state: dict[str, Any]) -> dict[str, Any]:
        seen.update(state)
        return {"messages": [AIMessage("ok")]}

    runnable = {"name": "r", "description": "d", "runnable": RunnableLambda(work)}
    writes = spec("w", says("x"), middleware=[Writes(lambda state: {})])
    agent(calls(task("t", "r")), runnable, writes).invoke(ask(note="n", files={"/a": 1}, _hidden="h", todos=["t"]))
    assert (seen["note"], seen["files"], len(seen["messages"])) == ("n", {"/a": 1}, 1)
    assert not seen.keys() & {"todos", "secret", "_hidden"}


async def test_files_of_subagents_side_by_side_all_come_back_and_none_undoes_anothers() -> None:
    first = Writes(lambda state: {"files": {"/a": "new", "/x": None}})
    second = Writes(lambda state: {"files": {"/b": "new"}})
    subagents = [spec("one", says("x"), middleware=[first]), spec("two", says("x"), middleware=[second])]
    lead = agent(calls(task("1", "one"), task("2", "two")), *subagents)
    state = await lead.ainvoke(ask(files={"/a": "old", "/b": "old", "/x": "old", "/y": "old"}))
    assert state["files"] == {"/a": "new", "/b": "new", "/y": "old"}


def test_what_reducers_add_up_is_not_added_twice() -> None:
    inside = Writes(lambda state: {"log": ["mine"], "total": 5, "best": 3, "last": "mine"})
    workers = [spec(name, says("x"), middleware=[inside]) for name in ("one", "two")]
    lead = agent(calls(task("1", "one"), task("2", "two")), *workers)
    state = lead.invoke(ask(log=["old"], total=10, best=2, last="old"))
    assert (state["log"], state["total"], state["best"], state["last"]) == (["old", "mine", "mine"], 20, 3, "mine")


def test_a_key_without_a_reducer_comes_back_from_the_only_call_and_stays_out_beside_others() -> None:
    workers = [spec(name, says("x"), middleware=[Writes(lambda state: {"note": "mine"})]) for name in ("one", "two")]
    assert agent(calls(task("1", "one")), *workers).invoke(ask(note="old"))["note"] == "mine"
    assert agent(calls(task("1", "one"), task("2", "two")), *workers).invoke(ask(note="old"))["note"] == "old"


def test_todos_and_private_keys_do_not_come_back() -> None:
    inside = Writes(lambda state: {"todos": ["mine"], "_hidden": "mine", "secret": "mine"})
    state = agent(calls(task("1", "one")), spec("one", says("x"), middleware=[inside])).invoke(ask(todos=["old"]))
    assert state["todos"] == ["old"]
    assert "_hidden" not in state


def test_a_runnable_that_returns_some_files_deletes_none() -> None:
    given = {"messages": [AIMessage("ok")], "files": {"/new": 1}, "unknown": 2}
    lead = agent(calls(task("1", "r")), {"name": "r", "description": "d", "runnable": RunnableLambda(lambda state: given)})
    assert lead.invoke(ask(files={"/old": 0}))["files"] == {"/old": 0, "/new": 1}


def test_a_runnable_without_messages_is_an_error_of_its_call() -> None:
    lead = agent(calls(task("1", "r")), {"name": "r", "description": "d", "runnable": RunnableLambda(lambda state: {})})
    status, told = results(lead.invoke(ask()))["1"]
    assert status == "error"
    assert "gave no state with messages" in told


def test_a_subagents_model_that_cannot_call_tools_is_an_error_of_its_call() -> None:
    from orchestrator.agent.harness.repair import PatchToolCallsMiddleware

    broken = [{"name": "look", "args": "{", "id": "b", "error": None}]
    worker = model(lambda messages: AIMessage("", invalid_tool_calls=broken))
    lead = agent(calls(task("1", "one")), spec("one", worker, middleware=[PatchToolCallsMiddleware()]))
    status, told = results(lead.invoke(ask()))["1"]
    assert status == "error"
    assert "could not be read 3 times" in told
