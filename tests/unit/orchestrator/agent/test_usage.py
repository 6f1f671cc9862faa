"""Every call of a model is told with who asked, once."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.agent.run import run_agent
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.agentspec import AgentSpec
from orchestrator.errors import TaskFailed

DELEGATES = b"""
turns:
  - tool_calls:
      - {id: a, name: task, args: {description: find it, subagent_type: finder}}
      - {id: b, name: task, args: {description: find that, subagent_type: finder}}
    usage: {input_tokens: 100, output_tokens: 10}
  - {text: done, usage: {input_tokens: 200, output_tokens: 20}}
"""
FINDS = b"turns: [{text: found, usage: {input_tokens: 7, output_tokens: 3}}]"
FINDER = {"name": "finder", "description": "Finds.", "system_prompt": "Find.", "model": "openai:x"}


class Told(list[tuple[str, str, int, int]]):
    """What was spent: agent, model, tokens in, tokens out."""

    def __call__(self, agent: str, model: str, tokens: Any) -> None:
        self.append((agent, model, tokens.get("input_tokens", 0), tokens.get("output_tokens", 0)))


async def run(agents: Any, script: bytes, model: str = "scripted:script.yaml", **spec: Any) -> Told:
    (agents.files / "model.yaml").write_bytes(script)
    told = Told()
    try:
        await run_agent(
            AgentSpec(prompt="Do it.", model=model, **spec),
            agents.backend,
            emit=lambda kind, data: None,
            files=agents.files,
            api_key=None,
            thread_id="run-1",
            spent=told,
        )
    except TaskFailed:
        told.append(("failed", "", 0, 0))
    return told


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subagent's model that plays a script of its own."""
    inner = ScriptedChatModel(script=load_script(FINDS, "inner.yaml"))
    monkeypatch.setattr("orchestrator.agent.run.provided", lambda *_: inner)


async def test_calls_of_the_agent_and_of_its_subagents_are_told_apart(agents: Any, finder: None) -> None:
    told = await run(agents, DELEGATES, subagents=[FINDER])
    model = told[0][1]
    assert sorted(told) == sorted([("", model, 100, 10), *[("finder", model, 7, 3)] * 2, ("", model, 200, 20)])


async def test_an_answer_that_is_recorded_on_its_way_counts_once(agents: Any) -> None:
    told = await run(agents, FINDS, model="record:cassette.yaml=scripted:script.yaml")
    assert [(given, made) for _, _, given, made in told] == [(7, 3)]


async def test_what_was_spent_before_a_failure_is_told(agents: Any) -> None:
    told = await run(agents, DELEGATES.replace(b"finder", b"nobody"), max_steps=1)
    assert [one[0] for one in told] == ["", "failed"]


async def test_a_model_that_tells_nothing_still_counts_as_called(agents: Any) -> None:
    told = await run(agents, b"turns: [{text: done}]")
    assert [(given, made) for _, _, given, made in told] == [(0, 0)]
