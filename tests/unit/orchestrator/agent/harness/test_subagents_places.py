"""What a subagent shows while it works, and where it works."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from orchestrator.agent.harness.fan_out import Answer, Report, TaskCall
from orchestrator.agent.harness.subagents import SubAgentMiddleware
from orchestrator.errors import BadInput
from sandboxes.toolbox.calls import call_scope, next_call_id
from tests.unit.orchestrator.agent.harness.delegating import (
    CONFIG,
    Counting,
    Writes,
    agent,
    ask,
    calls,
    fails,
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


class Elsewhere:
    """A fan-out that takes the subagents whose name ends in "s", and answers for each call of an answer at once."""

    def __init__(self, *failures: str) -> None:
        self.seen: list[tuple[TaskCall, Answer]] = []
        self._failures = failures

    def takes(self, subagent_type: str) -> bool:
        return subagent_type.endswith("s")

    async def __call__(self, call: TaskCall, answer: Answer) -> Report:
        self.seen.append((call, answer))
        if call.id in self._failures:
            raise OSError("no room")
        return Report(f"{call.description} {answer.calls.index(call)}", update={"files": {f"/{call.id}": "x"}})


async def test_a_fan_out_carries_out_the_calls_that_it_takes_and_knows_the_whole_answer() -> None:
    elsewhere = Elsewhere()
    lead = agent(
        calls(task("a", "workers", "One."), task("b", "here"), task("c", "workers", "Three."), task("d", "nobodys")),
        spec("workers", fails(ValueError("never called"))),
        spec("here", says("done here")),
        fan_out=elsewhere,
    )
    found = results(await lead.ainvoke(ask()))
    assert (found["a"][1], found["b"][1], found["c"][1]) == ("One. 0", "done here", "Three. 2")
    assert found["d"][0] == "error"
    answers = {answer for _, answer in elsewhere.seen}
    assert len(answers) == 1
    assert [(call.id, call.subagent_type) for call in answers.pop().calls] == [
        ("a", "workers"),
        ("b", "here"),
        ("c", "workers"),
    ]


async def test_what_a_fan_out_says_of_the_state_comes_into_it() -> None:
    lead = agent(
        calls(task("a", "workers")), spec("workers", says("x")), fan_out=Elsewhere(), middleware=[Writes(lambda _: {})]
    )
    assert (await lead.ainvoke(ask(files={})))["files"] == {"/a": "x"}


def test_a_fan_out_is_refused_in_a_sync_run() -> None:
    with pytest.raises(BadInput, match="ainvoke or astream"):
        agent(calls(task("a", "w")), spec("w", says("x")), fan_out=Elsewhere()).invoke(ask())


async def test_what_goes_wrong_elsewhere_is_an_error_of_the_call() -> None:
    lead = agent(calls(task("a", "workers"), task("b", "workers")), spec("workers", says("x")), fan_out=Elsewhere("a"))
    found = results(await lead.ainvoke(ask()))
    assert "OSError: no room" in found["a"][1]
    assert found["b"][0] == "success"


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
