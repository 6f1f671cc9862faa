"""What a task says about the subagents of its agent: where they work, and how their work comes back."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from orchestrator.agentspec import AgentSpec
from orchestrator.spec import RunSpec


def agent(**fields: Any) -> AgentSpec:
    return AgentSpec.model_validate({"prompt": "Go.", "model": "openai:x", **fields})


def subagent(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "system_prompt": "s", **fields}


ASKS = {"interrupt_on": {"execute": True}}


def test_a_subagent_that_says_nothing_works_where_the_agent_says() -> None:
    found = agent(isolation="fork", subagents=[subagent("a"), subagent("b", isolation="shared")])
    assert [found.isolation_of(name) for name in ("a", "b", "general-purpose")] == ["fork", "shared", "fork"]
    assert agent(subagents=[subagent("a", isolation="fork")]).isolation_of("a") == "fork"


def test_where_nobody_says_it_is_left_to_the_provider_unless_a_person_is_asked() -> None:
    assert agent().isolation_of("general-purpose") is None
    assert agent(**ASKS).isolation_of("general-purpose") == "shared"
    assert agent(interrupt_on={"execute": False}).isolation_of("general-purpose") is None


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"isolation": "fork"}, "isolation"),
        ({"subagents": [subagent("a"), subagent("b", isolation="fork")]}, "subagents.1.isolation"),
    ],
)
def test_who_works_in_a_fork_cannot_ask_a_person(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError, match="cannot ask a person: choose `shared`, or leave out `interrupt_on`") as caught:
        agent(**fields, **ASKS)
    assert ".".join(str(part) for part in caught.value.errors()[0]["loc"]) == place
    assert agent(**fields, interrupt_on={"execute": False}).asked_about() is None


def test_the_work_of_subagents_is_merged_like_that_of_children() -> None:
    merge = {"rules": [{"path": "*.lock", "policy": "ask"}], "resolver": {"model": "scripted:r.yaml"}, "verify": "make"}
    spec = RunSpec.model_validate({"agent": {"prompt": "Go.", "model": "openai:x", "merge": merge, "max_parallel": 3}})
    assert spec.agent is not None
    assert (spec.agent.max_parallel, spec.agent.on_child_failure) == (3, "continue")
    assert spec.models == ("openai:x", "scripted:r.yaml")
    with pytest.raises(ValidationError, match="Extra inputs"):
        agent(merge={"on_conflict": "keep"})


def test_an_agent_and_who_settles_its_conflicts_need_the_same_key() -> None:
    merge = {"rules": [{"path": "*", "policy": "ask"}], "resolver": {"model": "anthropic:y"}}
    with pytest.raises(ValidationError, match="its models need the keys of anthropic and openai"):
        RunSpec.model_validate({"agent": {"prompt": "Go.", "model": "openai:x", "merge": merge}})
