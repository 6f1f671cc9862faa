"""What a subagent shows while it works, and where it works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from orchestrator.agent.harness.subagents import SubAgentMiddleware, TaskCall
from orchestrator.errors import BadInput
from sandboxes.toolbox.calls import call_scope, next_call_id
from tests.unit.orchestrator.agent.harness.delegating import (
    CONFIG,
    Counting,
    Writes,
    agent,
    ask,
    calls,
    decide,
    fails,
    model,
    results,
    says,
    spec,
    task,
)


async def test_the_steps_of_a_subagent_are_in_the_stream_with_its_name() -> None:
    lead = agent(calls(task("a", "worker")), spec("worker", calls(("l", "look", {}), then="read"), tools=[Counting().look]))
    seen = [part async for part in lead.astream(ask(), stream_mode="updates", subgraphs=True)]
    inner = [update for namespace, update in seen if namespace and namespace[0].startswith("tools:")]
    assert [next(iter(update)) for update in inner] == ["model", "tools", "model"]
    messages = lead.stream(ask(), stream_mode="messages", subgraphs=True)
    names = {
        (bool(namespace), meta["lc_agent_name"])
        for namespace, (message, meta) in messages
        if isinstance(message, AIMessage | ToolMessage)
    }
    assert names >= {(False, "lead"), (True, "worker")}


async def test_calls_inside_a_subagent_have_ids_below_those_of_its_task() -> None:
    made: list[str | None] = []

    @tool
    async def write() -> str:
        """Write."""
        made.append(next_call_id())
        with call_scope("1:w"):
            made.append(next_call_id())
        return "written"

    lead = agent(calls(task("t", "worker")), spec("worker", calls(("w", "write", {})), tools=[write]))
    with call_scope("run:1:t"):
        await lead.ainvoke(ask())
    await lead.ainvoke(ask())
    assert made == [None, "run:1:t/1:w#0", None, "1:w#0"]


class Places:
    """A fan-out that gives each subagent a number, and keeps what happened."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.calls: list[TaskCall] = []

    @asynccontextmanager
    async def __call__(self, call: TaskCall) -> AsyncIterator[dict[str, Any]]:
        self.calls.append(call)
        self.log.append(f"in {call.id}")
        try:
            yield {"place": call.siblings.index(call.id)}
        except BaseException as exc:
            self.log.append(f"out {call.id} {type(exc).__name__}")
            raise
        self.log.append(f"out {call.id}")


async def test_a_fan_out_gives_each_subagent_a_place_and_learns_of_its_end() -> None:
    @tool
    async def where() -> str:
        """Tell the place."""
        return f"place {get_config()['configurable']['place']}"

    places = Places()
    worker = model(
        lambda messages: (
            AIMessage(messages[-1].text)
            if isinstance(messages[-1], ToolMessage)
            else AIMessage("", tool_calls=[{"id": "w", "name": "where", "args": {}}])
        )
    )
    lead = agent(
        calls(task("a", "worker", "One."), task("b", "bad"), task("c", "worker", "Three.")),
        spec("worker", worker, tools=[where]),
        spec("bad", fails(ValueError("boom"))),
        fan_out=places,
    )
    found = results(await lead.ainvoke(ask()))
    assert (found["a"][1], found["b"][0], found["c"][1]) == ("place 0", "error", "place 2")
    assert sorted(places.log) == ["in a", "in b", "in c", "out a", "out b ValueError", "out c"]
    assert TaskCall("a", "worker", "One.", ("a", "b", "c")) in places.calls


async def test_a_subagent_that_waits_for_a_human_leaves_its_place_and_comes_back_to_it() -> None:
    tools, places = Counting(), Places()
    lead = agent(calls(task("a", "ann")), tools.sender("ann"), fan_out=places, checkpointer=InMemorySaver())
    await lead.ainvoke(ask(), CONFIG)
    await lead.ainvoke(Command(resume=decide()), CONFIG)
    assert places.log == ["in a", "out a GraphInterrupt", "in a", "out a"]
    assert places.calls[0] == places.calls[1]


def test_a_fan_out_is_refused_in_a_sync_run() -> None:
    with pytest.raises(BadInput, match="ainvoke or astream"):
        agent(calls(task("a", "w")), spec("w", says("x")), fan_out=Places()).invoke(ask())


async def test_a_place_that_cannot_be_had_is_an_error_of_the_call() -> None:
    @asynccontextmanager
    async def none(call: TaskCall) -> AsyncIterator[dict[str, Any]]:
        raise OSError("no room")
        yield {}

    found = results(await agent(calls(task("a", "w")), spec("w", says("x")), fan_out=none).ainvoke(ask()))
    assert "OSError: no room" in found["a"][1]


async def test_files_of_a_thread_are_those_of_its_subagents_too() -> None:
    inside = Writes(lambda state: {"files": {f"/{len(state['files'])}": "x"}})
    lead = agent(calls(task("t", "one")), spec("one", says("x"), middleware=[inside]), checkpointer=InMemorySaver())
    await lead.ainvoke(ask(files={"/0": "a"}), CONFIG)
    state = (await lead.aget_state(CONFIG)).values
    assert state["files"] == {"/0": "a", "/1": "x"}


async def test_a_subagent_has_the_context_the_store_and_the_thread_of_the_main_agent() -> None:
    store = InMemoryStore()
    seen: list[Any] = []

    @tool
    async def who(runtime: ToolRuntime[Any, Any]) -> str:
        """Tell for whom it works."""
        seen.append((runtime.context, runtime.store is store, runtime.config["configurable"]["thread_id"]))
        return "told"

    subagents = SubAgentMiddleware(default_model=calls(("w", "who", {})), default_tools=[who])
    lead: Any = create_agent(
        calls(task("t", "general-purpose")),
        middleware=[subagents],
        context_schema=dict,
        store=store,
        checkpointer=InMemorySaver(),
    )
    await lead.ainvoke(ask(), CONFIG, context={"user": "ann"})
    assert seen == [({"user": "ann"}, True, "1")]
