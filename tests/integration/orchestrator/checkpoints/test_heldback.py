"""What only computes is recorded together with what follows; what costs or is seen outside is recorded around it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from orchestrator.agent.checkpoints import RecordSaver
from orchestrator.agent.harness import create_deep_agent
from orchestrator.agent.heldback import HeldBackSaver, Noted
from orchestrator.agent.run import Course, run_agent
from orchestrator.agentspec import AgentSpec
from orchestrator.checkpoints import Step, TaskWrites
from orchestrator.errors import RecordUnavailable, StaleLease
from orchestrator.runs.checkpointing import Checkpoints
from tests.integration.orchestrator.checkpoints.conftest import Workers
from tests.unit.orchestrator.agent.conftest import FolderBackend
from tests.unit.orchestrator.agent.harness.delegating import ask, model

CONFIG: Any = {"configurable": {"thread_id": "run-a"}, "recursion_limit": 200}
TURNS = 3
MANY = 30
"""Answers of a model."""


class Counted:
    """A record that counts what is noted, and that is away from some moment on."""

    def __init__(self, record: Checkpoints, *, away_after: int | None = None) -> None:
        self._record, self._away_after = record, away_after
        self.notes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._record, name)

    def note(self, changes: Sequence[Step | TaskWrites]) -> None:
        self.notes += 1
        if self.notes == self._away_after:
            raise RecordUnavailable("away for a moment")
        self._record.note(changes)


def looking(seen: list[Any], record: Checkpoints) -> Any:
    """A tool that looks at what is in the record while it runs."""

    @tool
    def look() -> str:
        """Look."""
        found = RecordSaver(record).get_tuple(CONFIG)
        assert found is not None
        seen.append([type(one).__name__ for one in found.checkpoint["channel_values"]["messages"]])
        return "seen"

    return look


def talk(messages: list[Any]) -> AIMessage:
    turn = sum(isinstance(one, AIMessage) for one in messages)
    return AIMessage("done") if turn == TURNS else AIMessage("", tool_calls=[{"id": f"c{turn}", "name": "look", "args": {}}])


async def test_an_agent_notes_its_way_before_each_call_and_after_it(workers: Workers) -> None:
    seen: list[Any] = []
    plain = workers.record()
    record = Counted(plain)
    saver = HeldBackSaver(record)
    agent = create_deep_agent(model(talk), [looking(seen, plain)], checkpointer=saver, around=[Noted(saver)])
    state = await agent.ainvoke(ask(), CONFIG, durability="sync")
    await saver.aflush()

    assert [one[-1] for one in seen] == ["AIMessage"] * TURNS, "an answer is recorded before what it asks for is done"
    assert [len(one) for one in seen] == [2, 4, 6]
    assert record.notes <= 4 * (TURNS + 1)
    found = RecordSaver(plain).get_tuple(CONFIG)
    assert found is not None
    assert found.checkpoint["channel_values"]["messages"] == state["messages"]


async def test_an_answer_is_told_when_it_is_recorded(workers: Workers, tmp_path: Path) -> None:
    record = workers.record()
    missing: list[str] = []

    def emit(kind: str, data: dict[str, Any]) -> None:
        if kind == "model.message" and data["id"] not in str(RecordSaver(record).get_tuple(CONFIG)):
            missing.append(data["id"])

    turns = "".join(f"  - tool_calls: [{{id: c{n}, name: write_todos, args: {{todos: []}}}}]\n" for n in range(MANY))
    (tmp_path / "model.yaml").write_text(f"turns:\n{turns}  - text: done\n")
    spec = AgentSpec(prompt="Go.", model="scripted:model.yaml", max_steps=MANY + 1)
    place = {"emit": emit, "files": tmp_path, "api_key": None, "allow_host_shell": True}
    outcome = await run_agent(spec, FolderBackend(tmp_path), thread_id="run-a", course=Course(record=record), **place)
    assert outcome.steps == MANY + 1
    assert missing == []


async def test_the_call_of_a_model_is_not_made_without_the_lease(workers: Workers) -> None:
    asked: list[int] = []

    def talk(messages: list[Any]) -> AIMessage:
        asked.append(len(messages))
        return AIMessage("done")

    saver = HeldBackSaver(workers.record())
    workers.record()  # another worker has the run now
    agent = create_deep_agent(model(talk), checkpointer=saver, around=[Noted(saver)])
    with pytest.raises(StaleLease):
        await agent.ainvoke(ask(), CONFIG, durability="sync")
    assert asked == []


async def test_after_a_write_that_failed_there_is_none(workers: Workers) -> None:
    record = Counted(workers.record(), away_after=2)
    saver = HeldBackSaver(record)
    agent = create_deep_agent(model(talk), [looking([], record)], checkpointer=saver, around=[Noted(saver)])
    with pytest.raises(RecordUnavailable):
        await agent.ainvoke({"messages": [HumanMessage("Go.")]}, CONFIG, durability="sync")
    with pytest.raises(RecordUnavailable):
        await saver.aflush()
    assert record.notes == 2
