"""Subagents side by side: at the same time, failing alone, and waiting for humans."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from orchestrator.errors import BadInput
from sandboxes.errors import SandboxGone
from tests.unit.orchestrator.agent.harness.delegating import (
    CONFIG,
    Counting,
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

SECONDS = 30
"""Bound of a wait in a test that would otherwise hang."""
ROUNDS = 500
"""Turns of the event loop: many more than a failure needs to cancel what runs beside it."""


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
