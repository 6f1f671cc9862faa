"""langgraph on the record: the same states as in memory, pauses, and a next worker that repeats nothing that is done."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt
from sqlalchemy import Engine, func, select

from orchestrator.agent.checkpoints import RecordSaver, serializer
from orchestrator.agent.heldback import HeldBackSaver
from orchestrator.errors import BadInput, StaleLease
from orchestrator.runs import checkpoint_tables as t
from tests.integration.orchestrator.checkpoints.conftest import Workers
from tests.unit.orchestrator.agent.harness.delegating import Counting, agent, ask, calls, decide, model, ran, says, task

CONFIG: Any = {"configurable": {"thread_id": "run-a"}}
NewSaver = Callable[[], RecordSaver]


DEADLINE = 30.0
"""Seconds for what a test waits for."""


class Words(TypedDict, total=False):
    """What the graphs here share."""

    words: Annotated[list[str], operator.add]
    last: str
    count: int


def loop(saver: Any, rounds: int = 6) -> Any:
    """A graph that goes around, with two nodes side by side."""
    graph = StateGraph(Words)
    graph.add_node("count", lambda state: {"count": state.get("count", 0) + 1})
    graph.add_node("left", lambda state: {"words": [f"left {state['count']}"]})
    graph.add_node("right", lambda state: {"words": [f"right {state['count']}"], "last": "right"})
    graph.add_node("join", lambda state: {"words": ["|"]})
    graph.add_edge(START, "count")
    graph.add_edge("count", "left")
    graph.add_edge("count", "right")
    graph.add_edge(["left", "right"], "join")
    graph.add_conditional_edges("join", lambda state: "count" if state["count"] < rounds else END)
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("kind", [RecordSaver, HeldBackSaver])
async def test_a_graph_has_the_same_states_as_in_memory(workers: Workers, kind: type[RecordSaver]) -> None:
    seen = {}
    for name, graph in {"memory": loop(InMemorySaver()), "record": loop(kind(workers.record()))}.items():
        states = [state async for state in graph.astream({"words": []}, CONFIG, stream_mode="values", durability="sync")]
        end = await graph.aget_state(CONFIG)
        seen[name] = (states, end.values, end.next, end.metadata)
    assert seen["record"] == seen["memory"]
    assert seen["record"][1]["count"] == 6


@pytest.mark.parametrize("kind", [RecordSaver, HeldBackSaver])
def test_so_has_one_that_is_not_awaited(workers: Workers, kind: type[RecordSaver]) -> None:
    memory, record = loop(InMemorySaver()), loop(kind(workers.record()))
    assert record.invoke({"words": []}, CONFIG) == memory.invoke({"words": []}, CONFIG)
    assert record.get_state(CONFIG).values == memory.get_state(CONFIG).values
    assert record.invoke({"words": ["more"]}, CONFIG) == memory.invoke({"words": ["more"]}, CONFIG)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_it_goes_on_with_a_new_saver_however_it_is_kept(workers: Workers, durability: Any) -> None:
    first, memory = loop(workers.saver()), loop(InMemorySaver())
    for graph in (first, memory):
        async for _ in graph.astream({"words": []}, CONFIG, interrupt_after=["join"], durability=durability):
            pass
    expected = await memory.ainvoke(None, CONFIG)
    assert await loop(workers.saver()).ainvoke(None, CONFIG, durability=durability) == expected


async def test_a_change_from_outside_is_the_next_step(workers: Workers) -> None:
    states = []
    for make in (InMemorySaver, workers.saver):
        graph = loop(make())
        await graph.ainvoke({"words": []}, CONFIG)
        await graph.aupdate_state(CONFIG, {"words": ["outside"], "count": 5}, as_node="join")
        states.append(await loop(graph.checkpointer).ainvoke(None, CONFIG))
    assert states[0] == states[1]
    assert states[1]["words"][-4:] == ["outside", "left 6", "right 6", "|"]


async def test_only_the_last_step_is_listed_and_others_are_not_found(saver: NewSaver) -> None:
    kept = saver()
    graph = loop(kept)
    ids = [one["config"]["configurable"]["checkpoint_id"] async for one in graph.astream({}, CONFIG, stream_mode="checkpoints")]
    assert [one.checkpoint["id"] async for one in kept.alist(CONFIG)] == [ids[-1]]
    assert [one.checkpoint["id"] for one in kept.list(None, filter={"source": "loop"}, limit=5)] == [ids[-1]]
    assert [*kept.list(CONFIG, filter={"source": "input"})] == []
    assert [*kept.list(CONFIG, before={"configurable": {"checkpoint_id": ids[-1]}})] == []
    assert [*kept.list(CONFIG, limit=0)] == []
    assert kept.get_tuple({"configurable": {"thread_id": "run-a", "checkpoint_id": ids[0]}}) is None
    assert (await kept.aget_tuple(CONFIG)).checkpoint["id"] == ids[-1]
    await kept.adelete_thread("run-a")
    assert await kept.aget_tuple(CONFIG) is None


async def test_a_pause_is_answered_on_another_worker(workers: Workers) -> None:
    def ask_twice(state: Words) -> Any:
        return {"words": [interrupt("first?"), interrupt("second?")]}

    def graph() -> Any:
        made = StateGraph(Words).add_node("ask", ask_twice).add_edge(START, "ask")
        return made.compile(checkpointer=workers.saver())

    paused = await graph().ainvoke({"words": ["go"]}, CONFIG)
    assert [one.value for one in paused["__interrupt__"]] == ["first?"]
    assert [one.value for one in (await graph().aget_state(CONFIG)).interrupts] == ["first?"]
    paused = await graph().ainvoke(Command(resume="one"), CONFIG)
    assert [one.value for one in paused["__interrupt__"]] == ["second?"]
    assert (await graph().ainvoke(Command(resume="two"), CONFIG))["words"] == ["go", "one", "two"]


async def test_of_tasks_side_by_side_only_the_one_that_failed_runs_again(workers: Workers) -> None:
    begun: list[int] = []

    def recorded() -> int:
        found = first.get_tuple(CONFIG)
        return len({task for task, *_ in found.pending_writes or ()}) if found else 0

    async def work(given: Any) -> Any:
        begun.append(given["n"])
        if given["n"] == 2 and begun.count(2) == 1:
            async with asyncio.timeout(DEADLINE):
                while await asyncio.to_thread(recorded) < 3:  # noqa: ASYNC110 - the record wakes nobody
                    await asyncio.sleep(0.01)
            raise RuntimeError("the machine is on fire")
        return {"words": [f"did {given['n']}"]}

    def graph(saver: RecordSaver) -> Any:
        made = StateGraph(Words).add_node("work", work)
        made.add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(4)], ["work"])
        return made.compile(checkpointer=saver)

    first = workers.saver()
    with pytest.raises(RuntimeError, match="on fire"):
        await graph(first).ainvoke({"words": []}, CONFIG, durability="sync")
    state = await graph(workers.saver()).ainvoke(None, CONFIG, durability="sync")
    assert state["words"] == [f"did {n}" for n in range(4)]
    assert sorted(begun) == [0, 1, 2, 2, 3]


async def test_subagents_that_wait_for_a_human_go_on_inside_their_tools(workers: Workers) -> None:
    counting = Counting()

    def lead() -> Any:
        asks = calls(task("t1", "ann"), task("t2", "bob"), ("t3", "look", {}))
        parts = [counting.sender("ann"), counting.sender("bob")]
        return agent(asks, *parts, checkpointer=workers.saver(), middleware=[Looks(counting)])

    paused = await lead().ainvoke(ask(), CONFIG, durability="sync")
    assert counting.ran == ["look"]
    answers = {one.id: decide() for one in paused["__interrupt__"]}
    assert len(answers) == 2
    state = await lead().ainvoke(Command(resume=answers), CONFIG, durability="sync")
    assert sorted(counting.ran) == ["ann", "bob", "look"]
    assert [str(m.text) for m in state["messages"] if isinstance(m, ToolMessage)] == ["told ann", "told bob", "seen"]


class Looks(AgentMiddleware[Any, Any, Any]):
    """Gives an agent the tool `look`."""

    def __init__(self, counting: Counting) -> None:
        self.tools = [counting.look]


async def test_what_a_subagent_left_goes_when_its_parent_is_a_step_further(saver: NewSaver, engine: Engine) -> None:
    nested = calls(task("t1", "helper"), then="end")
    helper = {"name": "helper", "description": "Helps.", "system_prompt": "Help.", "model": says("helped")}
    await agent(nested, helper, checkpointer=saver()).ainvoke(ask(), CONFIG, durability="sync")
    with engine.connect() as connection:
        for table in (t.checkpoints, t.blobs, t.writes):
            assert set(connection.execute(select(table.c.ns).distinct()).scalars()) <= {""}


async def test_a_conversation_takes_the_room_of_its_last_step(saver: NewSaver, engine: Engine) -> None:
    @tool
    def say(text: str) -> str:
        """Say it."""
        return text * 100

    def talk(messages: list[Any]) -> AIMessage:
        turn = sum(isinstance(one, AIMessage) for one in messages)
        request = {"id": f"c{turn}", "name": "say", "args": {"text": "0123456789"}}
        return AIMessage("done") if turn == 40 else AIMessage("", tool_calls=[request])

    made = create_agent(model(talk), [say], checkpointer=saver())
    state = await made.ainvoke(ask(), {**CONFIG, "recursion_limit": 200}, durability="sync")
    assert len(state["messages"]) == 82
    with engine.connect() as connection:
        bytes_of = select(func.sum(func.length(t.blobs.c.data)))
        assert connection.execute(select(func.count()).select_from(t.checkpoints)).scalar_one() == 1
        assert connection.execute(select(func.count()).select_from(t.blobs)).scalar_one() < 20
        assert 40_000 < connection.execute(bytes_of).scalar_one() < 100_000


async def test_a_worker_whose_lease_is_over_cannot_go_on(workers: Workers) -> None:
    graph = loop(workers.saver())
    await graph.ainvoke({"words": []}, CONFIG, interrupt_after=["join"], durability="sync")
    workers.saver()
    with pytest.raises(StaleLease):
        await graph.ainvoke(None, CONFIG, durability="sync")
    with pytest.raises(StaleLease):
        graph.invoke(None, CONFIG, durability="sync")


def test_a_graph_whose_values_are_made_from_all_steps_is_refused(saver: NewSaver) -> None:
    class State(TypedDict):
        """With a channel that keeps only changes."""

        words: Annotated[list[str], DeltaChannel(lambda old, new: [*old, *(word for one in new for word in one)])]

    made = StateGraph(State).add_node("a", lambda state: {"words": ["a"]}).add_edge(START, "a").compile(checkpointer=saver())
    with pytest.raises(BadInput, match="DeltaChannel"):
        made.invoke({"words": ["go"]}, CONFIG, durability="sync")


def test_versions_grow_and_two_of_one_number_differ(saver: NewSaver) -> None:
    kept = saver()
    version, versions = None, []
    for _ in range(12):
        version = kept.get_next_version(version, None)
        versions.append(version)
    assert sorted(versions) == versions
    assert kept.get_next_version(None, None) != kept.get_next_version(None, None)
    assert all(len(one) <= 64 for one in versions)


def test_what_stands_in_the_record_makes_no_other_objects(saver: NewSaver) -> None:
    kept = saver()
    with pytest.raises(NotImplementedError, match="pickle"):
        kept.serde.loads_typed(("pickle", b"cos\nsystem\n(S'true'\ntR."))
    for code, payload in ((0, ("os", "system", "true")), (3, ("os", "system", "true", "__call__"))):
        harmful = ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(payload)))
        assert kept.serde.loads_typed(("msgpack", harmful)) != 0


class Report:
    """A value of somebody's own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def model_dump(self) -> dict[str, str]:
        """As pydantic's models have it."""
        return {"text": self.text}


def test_types_that_are_named_come_back_and_others_as_plain_values() -> None:
    for serde, kind in ((serializer(), dict), (serializer([Report]), Report)):
        assert isinstance(serde.loads_typed(serde.dumps_typed(Report("a"))), kind)
    said = [HumanMessage("a", id="1"), Interrupt("b", id="2"), Send("node", {"x": ("y", None)})]
    again = serializer().loads_typed(serializer().dumps_typed(said))
    assert again[:2] == said[:2]
    assert (again[2].node, ran(said)) == ("node", False)


def test_text_that_databases_dislike_comes_back(saver: NewSaver) -> None:
    kept = saver()
    checkpoint = {**empty_checkpoint(), "channel_values": {"a": "\x00 \U0001f600"}, "channel_versions": {"a": "1"}}
    config: Any = {"configurable": {"thread_id": "run-a", "checkpoint_ns": ""}}
    metadata: Any = {"source": "input", "step": -1, "parents": {}, "note": "a\x00b"}
    put = kept.put(config, checkpoint, metadata, {"a": "1"})
    kept.put_writes(put, [("a", "\x00"), ("__error__", None)], "task", "~path")
    found = kept.get_tuple(put)
    assert found is not None
    assert found.config == put
    assert found.checkpoint["channel_values"] == {"a": "\x00 \U0001f600"}
    assert found.metadata["note"] == "ab"
    assert found.pending_writes == [("task", "__error__", None), ("task", "a", "\x00")]
