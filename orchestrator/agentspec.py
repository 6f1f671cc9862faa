"""What a task says about an agent."""

from __future__ import annotations

import posixpath
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from orchestrator.complaints import complaint
from orchestrator.fields import MAX_TIMEOUT, InsidePath, ModelName, Text
from orchestrator.mergespec import MergeSpec
from orchestrator.models import split_model
from orchestrator.yamlfile import KeyPath
from sandboxes.providers.base import Duration, Strict

DEFAULT_DECIDE_WITHIN = 86400.0
"""Seconds."""

Decision = Literal["approve", "edit", "reject", "respond"]
Isolation = Literal["shared", "fork"]
"""Where a subagent works: in the sandbox of the agent, or in a fork of it whose changes are merged back."""


class SubAgentSpec(Strict):
    """An agent that the main agent can give tasks to, in the same sandbox or in a fork of it."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    description: Text
    """What it is good for: the main agent chooses by this."""
    system_prompt: Text
    """Its instructions."""
    model: str | None = None
    """`PROVIDER:NAME`. Default: the main agent's."""
    isolation: Isolation | None = None
    """Default: the main agent's `isolation`."""

    @field_validator("model")
    @classmethod
    def _of_a_provider(cls, value: str | None) -> str | None:
        if value is not None and split_model(value)[0]:
            raise ValueError("a subagent's model is PROVIDER:NAME, or the main agent's when it is left out")
        return value


class PermissionSpec(Strict):
    """A rule for files, which holds for tools and commands alike. Of several the first that fits decides."""

    operations: tuple[Literal["read", "write"], ...] = Field(min_length=1)
    paths: tuple[str, ...] = Field(min_length=1)
    """Folders or files, with all that is in them (`tests`, `tests/**`). A relative path begins in the working directory."""
    mode: Literal["allow", "deny"] = "allow"

    def placed(self, workdir: str) -> PermissionSpec:
        """The same rule with absolute paths."""
        paths = tuple(path if path.startswith("/") else posixpath.join(workdir, path) for path in self.paths)
        return self.model_copy(update={"paths": paths})


class AgentSpec(Strict):
    """An agent: a model with a goal and the sandbox's tools."""

    prompt: Text
    """What it is asked to do."""
    model: ModelName
    system_prompt: Text | None = None
    """Replaces the built-in system prompt."""
    max_steps: int = Field(100, gt=0, le=10_000)
    """Calls of the model, and of each subagent's."""
    subagents: tuple[SubAgentSpec, ...] = ()
    """Beside the general-purpose one, which is always there."""
    isolation: Isolation | None = None
    """Of all subagents that do not say. Default: a fork where the provider makes them natively and nothing asks a person."""
    max_parallel: int | None = Field(None, gt=0)
    """Subagents in forks that are at work at the same time. Default: all that the quotas allow."""
    on_child_failure: Literal["continue", "cancel"] = "continue"
    """When a subagent in a fork fails, those beside it go on, or are cancelled."""
    merge: MergeSpec = MergeSpec()
    """How what subagents did in forks comes back into the agent's workspace."""
    permissions: tuple[PermissionSpec, ...] = ()
    """What the agent and its commands may read and write. Without a rule that fits, everything."""
    memory: tuple[InsidePath, ...] = ()
    """AGENTS.md files in the working directory, which the agent is shown and may keep up."""
    skills: tuple[InsidePath, ...] = ()
    """Folders in the working directory whose subfolders are skills (SKILL.md)."""

    interrupt_on: dict[str, bool | tuple[Decision, ...]] = Field(default_factory=dict)
    """Tools that a person decides about before they run: `execute: true`, or the decisions that are allowed."""
    decide_within: Duration = Field(DEFAULT_DECIDE_WITHIN, le=MAX_TIMEOUT)
    """Seconds that a person has for a decision; they do not count as the run's time. Without one it ends as `timeout`."""
    while_waiting: Literal["keep", "pause", "snapshot"] = "keep"
    """What becomes of the sandbox meanwhile: it goes on, stands still, or its files are stored and it is made again."""

    def asked_about(self) -> dict[str, Any] | None:
        """`interrupt_on` as `create_deep_agent` takes it."""
        asked: dict[str, Any] = {}
        for name, allowed in self.interrupt_on.items():
            if allowed:
                asked[name] = {"allowed_decisions": list(allowed)} if isinstance(allowed, tuple) else True
        return asked or None

    @model_validator(mode="after")
    def _told_apart(self) -> AgentSpec:
        names = [one.name for one in self.subagents]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"subagents: there are two called '{twice[0]}'")
        return self

    @model_validator(mode="after")
    def _forks_ask_nobody(self) -> AgentSpec:
        said: dict[KeyPath, Isolation | None] = {("isolation",): self.isolation}
        said |= {("subagents", index, "isolation"): one.isolation for index, one in enumerate(self.subagents)}
        forks = [place for place, isolation in said.items() if isolation == "fork"]
        if forks and self.asked_about():
            raise complaint(forks[0], "a subagent in a fork cannot ask a person: choose `shared`, or leave out `interrupt_on`")
        return self

    def isolation_of(self, subagent: str) -> Isolation | None:
        """Where this subagent works; None leaves it to what the provider can."""
        if self.asked_about():
            return "shared"
        return next((one.isolation for one in self.subagents if one.name == subagent and one.isolation), self.isolation)

    def placed_permissions(self, workdir: str) -> tuple[PermissionSpec, ...]:
        """The permissions with absolute paths."""
        return tuple(rule.placed(workdir) for rule in self.permissions)
