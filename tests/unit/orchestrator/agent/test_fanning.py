"""Subagents that work in forks: one fan-out for all calls of an answer, when nothing else is at work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import tool

from orchestrator.agent.fanning import Fanning, with_conflicts
from orchestrator.agent.forks import Worked
from orchestrator.agent.harness import SubAgent, create_deep_agent
from orchestrator.agent.harness.fan_out import Answer, TaskCall
from sandboxes.backends.state import StateBackend
from tests.unit.orchestrator.agent.harness.delegating import ask, calls, model, results, says, task

WORKER = SubAgent(name="worker", description="Works.", system_prompt="Work.", model=says("in the same place"))
READ = ("r", "read_file", {"file_path": "/conflicts/a/x.marked"})


class Forks:
    """Answers each call with its description; keeps what it was asked for, and ends when it is let."""

    def __init__(self, *, waits: bool = False) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.begun = asyncio.Event()
        self.ended = False
        self.log: list[str] = []
        self._waits = waits

    def takes(self, subagent_type: str) -> bool:
        return subagent_type == "worker"

    async def run(self, answer_id: str, calls: Sequence[TaskCall]) -> Sequence[Worked]:
        self.asked.append((answer_id, tuple(call.id for call in calls)))
        self.log.append("forked")
        self.begun.set()
        try:
            if self._waits:
                await asyncio.Event().wait()
        finally:
            self.ended = True
        return [Worked(f"{call.description} done", conflicts={f"{call.id}/x.marked": b"<<<"}) for call in calls]


async def test_all_calls_of_an_answer_are_one_fan_out_which_begins_when_the_other_tools_are_done() -> None:
    forks = Forks()

    @tool
    async def slow() -> str:
        """Take a while."""
        for _ in range(50):
            await asyncio.sleep(0)
        forks.log.append("slow")
        return "slow"

    fanning = Fanning(forks)
    lead = create_deep_agent(
        calls(task("a", "worker", "One"), ("s", "slow", {}), task("b", "worker", "Two"), task("g", "general-purpose")),
        [slow],
        subagents=[WORKER, {**WORKER, "name": "general-purpose"}],
        fan_out=fanning,
        around=[fanning],
    )
    found = results(await lead.ainvoke(ask()))
    assert (found["a"][1], found["b"][1], found["g"][1]) == ("One done", "Two done", "in the same place")
    assert [ids for _, ids in forks.asked] == [("a", "b")]
    assert forks.log == ["slow", "forked"]


async def test_what_could_not_be_merged_can_be_read_below_conflicts() -> None:
    fanning = Fanning(Forks())

    def lead_says(messages: list[BaseMessage]) -> AIMessage:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        asked = [[task("a", "worker")], [READ], []][done]
        return AIMessage("done", tool_calls=[{"id": key, "name": name, "args": args} for key, name, args in asked])

    lead = create_deep_agent(
        model(lead_says), subagents=[WORKER], backend=with_conflicts(StateBackend()), fan_out=fanning, around=[fanning]
    )
    assert "<<<" in results(await lead.ainvoke(ask()))["r"][1]


async def test_who_is_cancelled_ends_the_fan_out_first() -> None:
    forks = Forks(waits=True)
    fanning = Fanning(forks)
    call = TaskCall("a", "worker", "One")
    waiting = asyncio.ensure_future(fanning(call, Answer("m", (call,))))
    await forks.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert forks.ended


async def test_an_agent_that_may_not_delegate_has_no_task() -> None:
    lead = create_deep_agent(says("done"), delegates=False)
    await lead.ainvoke(ask())
    assert "task" not in lead.nodes["tools"].bound.tools_by_name
