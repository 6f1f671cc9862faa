"""What the command line changes in a task: the task file's own rules hold for it, and messages name the option."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.complaints import read_as
from orchestrator.errors import BadInput
from orchestrator.spec import RunSpec
from orchestrator.yamlfile import Document
from sandboxes.providers.base import parse_duration


@dataclass(frozen=True)
class Overrides:
    """The options that replace a part of the task; None leaves it as it is."""

    provider: str | None = None
    model: str | None = None
    timeout: str | None = None
    retries: int | None = None
    env: dict[str, str] | None = None
    inputs: Path | None = None

    def apply(self, spec: RunSpec) -> RunSpec:
        """The task with these changes. Raises `BadInput`."""
        data = spec.model_dump(exclude_unset=True)
        sandbox: dict[str, Any] = data.setdefault("sandbox", {})
        if self.provider is not None:
            sandbox["provider"] = self.provider
            sandbox.pop("providers", None)
        if self.env:
            sandbox["env"] = {**sandbox.get("env", {}), **self.env}
        if self.timeout is not None:
            data["timeout"] = seconds("--timeout", self.timeout)
        if self.retries is not None:
            data["retries"] = self.retries
        if self.model is not None:
            _set_model(data, self.model)
        if self.inputs is not None:
            excluded = spec.inputs.exclude if spec.inputs else ()
            data["inputs"] = {"path": str(self.inputs), "exclude": excluded}
        return validated(data, "command line")


def _set_model(data: dict[str, Any], model: str) -> None:
    """Give this model to the agent of a task, or to those of its children. Raises `BadInput` when there is none."""
    fan_out = data.get("fan_out") or {}
    agents = [one["agent"] for one in (data, fan_out, *(fan_out.get("tasks") or ())) if one.get("agent")]
    if not agents:
        raise BadInput(f"--model {model}: this task runs a command; only a task with an agent has a model")
    for agent in agents:
        agent["model"] = model


def validated(data: dict[str, Any], source: str) -> RunSpec:
    """The `RunSpec` of these values. Raises `BadInput` with messages that name `source`."""
    return read_as(RunSpec, Document(data, source))


def seconds(option: str, value: str) -> float:
    """A duration in seconds. Raises `BadInput`."""
    try:
        parsed = parse_duration(value)
    except ValueError as exc:
        raise BadInput(f"{option}: {exc}") from exc
    assert isinstance(parsed, float)
    return parsed
