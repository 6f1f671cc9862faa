"""What a user asks for: `RunSpec`, written as a task.yaml. Unknown keys are refused, with a suggestion."""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from orchestrator.agentspec import AgentSpec
from orchestrator.complaints import complaint, read_as
from orchestrator.errors import BadInput
from orchestrator.fanspec import ChildSpec, FanOutSpec
from orchestrator.fields import MAX_RETRIES, MAX_TIMEOUT, InsidePath, Labels, Name, Priority, Text, Variables, is_name
from orchestrator.models import check_one_key
from orchestrator.mounts import check_places, mounts_for
from orchestrator.permissions import below
from orchestrator.sandboxspec import TaskSandbox
from orchestrator.yamlfile import Document, read_yaml
from sandboxes.providers.base import Duration, Mount, SandboxSpec, Strict
from sandboxes.providers.dockerfile import Dockerfile

DEFAULT_TIMEOUT = 1800.0
"""Seconds."""
LIFETIME_MARGIN = 300.0
"""Seconds that a sandbox may outlive its run's timeout: for unpacking before and collecting outputs after."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class GitSource(Strict):
    """A repository at a ref."""

    url: str
    """Address, or a path inside the task file's folder."""
    ref: str = "HEAD"
    """Branch, tag or commit."""


class InputSpec(Strict):
    """What the workspace holds at the start: at most one of a folder, a repository and an archive."""

    path: str | None = None
    """Folder inside the task file's folder."""
    git: GitSource | None = None
    archive: str | None = None
    """Tar or zip file inside the task file's folder."""
    exclude: tuple[str, ...] = ()
    """Names of files and folders that are left out, at any depth."""

    @model_validator(mode="after")
    def _one_source(self) -> InputSpec:
        given = [name for name in ("path", "git", "archive") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of 'path', 'git' and 'archive', not {' and '.join(given) or 'none'}")
        return self


class OutputSpec(Strict):
    """What is kept of the workspace at the end."""

    patch: bool | None = None
    """A patch of what changed. Default: yes, when there are inputs."""
    files: tuple[InsidePath, ...] = ()
    """Globs; what matches becomes an artifact."""


class Budget(Strict):
    """What a run may use, in all its attempts together. A run that has used up one of these ends; None is no limit."""

    tokens: int | None = Field(None, gt=0)
    """Given to models and made by them."""
    cost: float | None = Field(None, gt=0, allow_inf_nan=False)
    """USD, by the operator's prices; models without a price cost nothing."""
    sandbox_seconds: Duration | None = None


class RunSpec(Strict):
    """One run, whole. JSON forms of it (`model_dump(mode="json")`) hold no secret values."""

    name: Name = "task"
    agent: AgentSpec | None = None
    command: Text | None = None
    """A shell command, instead of an agent."""
    fan_out: FanOutSpec | None = None
    """Children that begin with the same workspace and whose work is merged into it, instead of one agent or command."""
    sandbox: TaskSandbox = TaskSandbox()
    inputs: InputSpec | None = None
    outputs: OutputSpec = OutputSpec()
    verify: Text | None = None
    """A shell command that decides: exit code 0 is success."""
    timeout: Duration = Field(DEFAULT_TIMEOUT, le=MAX_TIMEOUT)
    """Seconds for the whole run, all attempts together."""
    retries: int = Field(0, ge=0, le=MAX_RETRIES)
    """How often a failed attempt is tried again, in a fresh sandbox."""
    budget: Budget = Budget()
    """What it may use at most."""
    secrets: Variables = Field(default_factory=dict)
    """Environment variables of the sandbox's commands, each given as `${VAR}` of whoever submits the run."""

    labels: Labels = Field(default_factory=dict)
    """What runs can be found by."""
    priority: Priority = 0
    """Of a tenant's runs that wait, the highest goes first."""

    @field_validator("secrets")
    @classmethod
    def _only_references(cls, value: dict[str, str]) -> dict[str, str]:
        for name, reference in value.items():
            if not _REFERENCE.fullmatch(reference):
                raise ValueError(f"write {name}: ${{VARIABLE}}; the value of a secret does not belong in a task file")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> RunSpec:
        if sum(task is not None for task in (self.agent, self.command, self.fan_out)) != 1:
            raise ValueError("give exactly one of 'agent', 'command' and 'fan_out'")
        if self.sandbox.lifetime is not None and self.sandbox.lifetime < self.timeout:
            raise ValueError("sandbox.lifetime is shorter than timeout: the sandbox would end under the run")
        check_one_key(self.models)
        self._check_permissions(self.agent)
        if self.fan_out is not None:
            self._check_children(self.fan_out)
        return self

    def _check_children(self, fan_out: FanOutSpec) -> None:
        if fan_out.timeout and self.sandbox.lifetime and self.sandbox.lifetime < fan_out.timeout:
            raise complaint(("fan_out", "timeout"), "is longer than sandbox.lifetime: a child's sandbox would end under it")
        for place, agent in fan_out.agents():
            try:
                self._check_permissions(agent)
            except ValueError as exc:
                raise complaint(("fan_out", *place, "permissions"), str(exc)) from exc

    def _check_permissions(self, agent: AgentSpec | None) -> None:
        check_places(self._closed_to(agent), self.sandbox.workdir, writable_system=self.sandbox.system == "overlay")

    def _closed_to(self, agent: AgentSpec | None) -> tuple[Mount, ...]:
        rules = agent.placed_permissions(self.sandbox.workdir) if agent else ()
        return mounts_for(rule.model_dump() for rule in rules)

    def with_default_provider(self, provider: str) -> RunSpec:
        """The same task with this provider, where it names none."""
        return self.model_copy(update={"sandbox": self.sandbox.with_default(provider)})

    def child(self, child: ChildSpec) -> RunSpec:
        """The run of a child of `fan_out`."""
        assert self.fan_out is not None, "a task without fan_out has no children"
        return self._forked(
            name=child.name,
            agent=child.agent,
            command=child.command,
            outputs=OutputSpec(patch=False, files=self.fan_out.files),
            timeout=self.fan_out.timeout or self.timeout,
            retries=self.fan_out.retries,
        )

    def subagent(self, name: str, agent: AgentSpec) -> RunSpec:
        """The run of a subagent in a fork."""
        return self._forked(name=name, agent=agent, outputs=OutputSpec(patch=False), timeout=self.timeout)

    def _forked(self, **own: Any) -> RunSpec:
        """A run in a fork of this one's sandbox: so without inputs, and its changes are no patch. The fork goes when it ends,
        because the sandbox that it stands on is to go on."""
        return RunSpec(
            sandbox=self.sandbox.model_copy(update={"keep": "never"}),
            budget=self.budget,
            secrets=self.secrets,
            labels=self.labels,
            priority=self.priority,
            **own,
        )

    @property
    def closed(self) -> tuple[Mount, ...]:
        """The places of the sandbox that the agent's permissions close. Raises `ValueError` when they cannot be enforced."""
        return self._closed_to(self.agent)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Paths in the working directory that are kept out of the sandbox."""
        inside = [mount.target for mount in self.closed if mount.mode == "hidden" and below(mount.target, self.sandbox.workdir)]
        return tuple(posixpath.relpath(path, self.sandbox.workdir) for path in inside)

    @property
    def secret_variables(self) -> dict[str, str]:
        """For each variable of the sandbox the variable of the submitter that it comes from."""
        return {name: reference[2:-1] for name, reference in self.secrets.items()}

    @property
    def side_models(self) -> tuple[str, ...]:
        """The models of its children, and of who settles conflicts between them, each once."""
        if self.fan_out is not None:
            return self.fan_out.models
        return self.agent.merge.models if self.agent is not None else ()

    @property
    def models(self) -> tuple[str, ...]:
        """All models that take the submitter's key: those of subagents have the main agent's, or their own on the worker."""
        return (*((self.agent.model,) if self.agent is not None else ()), *self.side_models)

    @property
    def pauses(self) -> bool:
        """Whether its sandbox is to stand still while a person is asked."""
        return self.agent is not None and bool(self.agent.interrupt_on) and self.agent.while_waiting == "pause"

    @property
    def wants_patch(self) -> bool:
        """Whether a patch is to be made."""
        return self.outputs.patch if self.outputs.patch is not None else self.inputs is not None

    def sandbox_spec(self, frozen: Path | None = None) -> SandboxSpec:
        """What the provider is asked for. `frozen`: the archive of its Dockerfile, when it has one."""
        fields = self.sandbox.model_dump(include=set(SandboxSpec.model_fields), exclude={"lifetime", "dockerfile"})
        if (asked := self.sandbox.dockerfile) is not None:
            fields["dockerfile"] = Dockerfile(archive=str(frozen), network=asked.network)
        waits = self.agent is not None and self.agent.interrupt_on and self.agent.while_waiting != "snapshot"
        needed = self.timeout + LIFETIME_MARGIN + (self.agent.decide_within if self.agent and waits else 0.0)
        kept = self.sandbox.keep_for if self.sandbox.keep != "never" else 0.0
        return SandboxSpec(**fields, lifetime=self.sandbox.lifetime or needed + kept)


def load_task(path: Path) -> RunSpec:
    """Read a task file. Raises `BadInput` with one line for each thing that is wrong with it."""
    document = read_yaml(path)
    return parse_task(document, default_name=path.stem if path.stem != "task" else path.resolve().parent.name)


def parse_task(document: Document, *, default_name: str | None = None) -> RunSpec:
    """The `RunSpec` that a document describes. Raises `BadInput`."""
    value = document.value
    if not isinstance(value, dict):
        raise BadInput(f"{document.source}: a task is a mapping: it needs at least one of 'command', 'agent' and 'fan_out'")
    if "name" not in value and default_name and is_name(default_name):
        document = replace(document, value={"name": default_name, **value})
    return read_as(RunSpec, document)
