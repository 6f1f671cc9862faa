"""Subagents side by side: at the same time, failing alone, waiting for humans, and in places of their own."""

from __future__ import annotations

import asyncio
import threading
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
from sandboxes.errors import SandboxGone
from sandboxes.toolbox.calls import call_scope, next_call_id
from tests.unit.orchestrator.agent.harness.delegating import Writes, agent, ask, calls, model, results, says, spec, task

CONFIG: Any = {"configurable": {"thread_id": "1"}}
SECONDS = 30
"""Bound of a wait in a test that would otherwise hang."""
ROUNDS = 500
"""Turns of the event loop: many more than a failure needs to cancel what runs beside it."""


class Counting:
    """Tools that count how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def send(to: str) -> str:
            """Send a letter."""
            self.ran.append(to)
            return f"sent to {to}"

        @tool
        def look() -> str:
            """Look."""
            self.ran.append("look")
            return "seen"

        self.send, self.look = send, look

    def sender(self, name: str) -> Any:
        """A subagent that sends a letter to its own name, and asks first."""
        its_model = calls((f"s-{name}", "send", {"to": name}), then=f"told {name}")
        return spec(name, its_model, tools=[self.send], interrupt_on={"send": True})


def decide(kind: str = "approve", **more: Any) -> dict[str, Any]:
    return {"decisions": [{"type": kind, **more}]}


def waiting(state: Any) -> dict[str, str]:
    """Ids of the requests that wait, by whom the letter goes to."""
    return {pause.value["action_requests"][0]["args"]["to"]: pause.id for pause in state["__interrupt__"]}


def all_at_once(count: int) -> Any:
    """A model that answers when `count` of its calls are under way."""
    gate = threading.Barrier(count)

    def answer(messages: list[Any]) -> AIMessage:
        gate.wait(SECONDS)
        return AIMessage("together")

    return model(answer)


def test_tasks_of_one_answer_run_at_the_same_time() -> None:
    worker = spec("worker", all_at_once(3))
    state = agent(calls(*(task(key, "worker") for key in "abc")), worker).invoke(ask())
    assert {text for _, text in results(state).values()} == {"together"}


async def test_tasks_of_one_answer_run_at_the_same_time_in_the_async_form() -> None:
    worker = spec("worker", all_at_once(3))
    state = await agent(calls(*(task(key, "worker") for key in "abc")), worker).ainvoke(ask())
    assert [key for key, (_, text) in results(state).items() if text == "together"] == ["a", "b", "c"]


# -- failures


def fails(exc: Exception) -> Any:
    def answer(messages: list[Any]) -> AIMessage:
        raise exc

    return model(answer)


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_one_that_fails_is_an_error_of_its_call_and_the_others_go_on(form: str) -> None:
    lead = agent(
        calls(task("a", "good"), task("b", "bad"), task("c", "good"), then="went on"),
        spec("good", says("fine")),
        spec("bad", fails(ValueError("boom"))),
    )
    state = lead.invoke(ask()) if form == "sync" else await lead.ainvoke(ask())
    found = results(state)
    assert found["a"] == found["c"] == ("success", "fine")
    assert found["b"][0] == "error"
    assert "the subagent 'bad' failed before it could report (ValueError: boom)" in found["b"][1]
    assert state["messages"][-1].text == "went on"


def test_a_failure_with_a_long_text_is_cut() -> None:
    lead = agent(calls(task("a", "bad")), spec("bad", fails(ValueError("x" * 100_000))))
    assert len(results(lead.invoke(ask()))["a"][1]) < 3000


class Late:
    """A tool that ends well after another has failed, and one that fails while the first is under way."""

    def __init__(self) -> None:
        failing, started = asyncio.Event(), asyncio.Event()
        self.ended = 0
        self.fails = True

        @tool
        async def late() -> str:
            """Work on after the other has failed."""
            started.set()
            await failing.wait()
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
            self.ended += 1
            return "late"

        @tool
        async def fragile() -> str:
            """Fail while the other works."""
            await started.wait()
            failing.set()
            if self.fails:
                raise SandboxGone("the sandbox has ended")
            return "back"

        self.parts = [self.using(late), self.using(fragile)]

    def using(self, its_tool: Any) -> Any:
        return spec(its_tool.name, calls((f"c-{its_tool.name}", its_tool.name, {}), then="ended"), tools=[its_tool])


async def test_a_failure_of_the_sandbox_ends_the_run_after_the_others_and_their_work_is_not_repeated() -> None:
    plan = Late()
    asked = (task("a", "late"), task("b", "fragile"), task("c", "fragile"))
    lead = agent(calls(*asked), *plan.parts, checkpointer=InMemorySaver())
    with pytest.raises(SandboxGone, match="has ended"):
        await lead.ainvoke(ask(), CONFIG)
    assert plan.ended == 1
    plan.fails = False
    state = await lead.ainvoke(None, CONFIG)
    assert results(state) == dict.fromkeys("abc", ("success", "ended"))
    assert plan.ended == 1


def test_a_failure_of_the_sandbox_ends_a_sync_run_after_the_others_too() -> None:
    started, failing = threading.Event(), threading.Event()
    answered: list[str] = []

    def late(messages: list[Any]) -> AIMessage:
        started.set()
        assert failing.wait(SECONDS)
        answered.append("late")
        return AIMessage("late")

    def gone(messages: list[Any]) -> AIMessage:
        assert started.wait(SECONDS)
        failing.set()
        raise SandboxGone("the sandbox has ended")

    lead = agent(
        calls(task("a", "late"), task("b", "gone")),
        spec("late", model(late)),
        spec("gone", model(gone)),
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(SandboxGone):
        lead.invoke(ask(), CONFIG)
    assert answered == ["late"]
    with pytest.raises(SandboxGone):
        lead.invoke(None, CONFIG)
    assert answered == ["late"]


async def test_a_run_that_is_cancelled_while_it_waits_for_the_others_ends() -> None:
    started, waiting = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Wait."""
        started.set()
        await asyncio.Event().wait()
        return ""

    @tool
    async def end() -> str:
        """Fail."""
        await started.wait()
        waiting.set()
        raise SandboxGone("gone")

    parts = [spec("a", calls(("h", "hang", {})), tools=[hang]), spec("b", calls(("e", "end", {})), tools=[end])]
    run = asyncio.create_task(agent(calls(task("1", "a"), task("2", "b")), *parts).ainvoke(ask()))
    await waiting.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, SECONDS)


# -- humans


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_human_decides_inside_a_subagent_and_nothing_beside_it_runs_again(form: str) -> None:
    tools = Counting()
    reader = spec("reader", calls(("l", "look", {}), then="read"), tools=[tools.look])
    lead_model = calls(task("a", "ann"), task("r", "reader"))
    lead = agent(lead_model, tools.sender("ann"), reader, checkpointer=InMemorySaver())
    paused = lead.invoke(ask(), CONFIG) if form == "sync" else await lead.ainvoke(ask(), CONFIG)
    (pause,) = paused["__interrupt__"]
    assert pause.value["action_requests"][0]["args"] == {"to": "ann"}
    assert tools.ran == ["look"]
    resume: Any = Command(resume=decide())
    state = lead.invoke(resume, CONFIG) if form == "sync" else await lead.ainvoke(resume, CONFIG)
    assert results(state) == {"a": ("success", "told ann"), "r": ("success", "read")}
    assert tools.ran == ["look", "ann"]
    assert len(reader["model"].shown) == 2
    assert len(lead_model.shown) == 2


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_subagents_that_wait_at_the_same_time_each_get_their_own_answer(form: str) -> None:
    tools = Counting()
    ann, bob = tools.sender("ann"), tools.sender("bob")
    lead = agent(calls(task("a", "ann"), task("b", "bob")), ann, bob, checkpointer=InMemorySaver())
    paused = lead.invoke(ask(), CONFIG) if form == "sync" else await lead.ainvoke(ask(), CONFIG)
    pauses = waiting(paused)
    assert sorted(pauses) == ["ann", "bob"]
    first: Any = Command(resume={pauses["bob"]: decide("reject", message="not bob")})
    half = lead.invoke(first, CONFIG) if form == "sync" else await lead.ainvoke(first, CONFIG)
    assert [pause.id for pause in half["__interrupt__"]] == [pauses["ann"]]
    assert tools.ran == []
    second: Any = Command(resume={pauses["ann"]: decide()})
    state = lead.invoke(second, CONFIG) if form == "sync" else await lead.ainvoke(second, CONFIG)
    assert tools.ran == ["ann"]
    assert results(state) == {"a": ("success", "told ann"), "b": ("success", "told bob")}
    assert [len(one["model"].shown) for one in (ann, bob)] == [2, 2]


def test_both_can_be_answered_at_once_and_a_wrong_answer_is_asked_for_again_in_its_subagent_alone() -> None:
    tools = Counting()
    lead = agent(
        calls(task("a", "ann"), task("b", "bob")), tools.sender("ann"), tools.sender("bob"), checkpointer=InMemorySaver()
    )
    ids = waiting(lead.invoke(ask(), CONFIG))
    (again,) = lead.invoke(Command(resume={ids["ann"]: decide(), ids["bob"]: decide("maybe")}), CONFIG)["__interrupt__"]
    assert "'maybe'" in again.value["problem"]
    assert tools.ran == ["ann"]
    state = lead.invoke(Command(resume={again.id: decide()}), CONFIG)
    assert tools.ran == ["ann", "bob"]
    assert state["messages"][-1].text == "done"


def test_the_default_rules_hold_in_subagents_that_have_none_of_their_own() -> None:
    tools = Counting()
    strict = spec("strict", calls(("s", "send", {"to": "x"})), tools=[tools.send])
    free = spec("free", calls(("f", "send", {"to": "y"})), tools=[tools.send], interrupt_on={})
    lead = agent(
        calls(task("s", "strict"), task("f", "free")),
        strict,
        free,
        default_interrupt_on={"send": True},
        checkpointer=InMemorySaver(),
    )
    assert len(lead.invoke(ask(), CONFIG)["__interrupt__"]) == 1
    assert tools.ran == ["y"]


def test_a_human_inside_a_subagent_needs_a_checkpointer_in_the_main_agent() -> None:
    tools = Counting()
    with pytest.raises(BadInput, match="checkpointer"):
        agent(calls(task("a", "ann")), tools.sender("ann")).invoke(ask())


# -- streams, ids, places


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
