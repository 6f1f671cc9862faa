"""A run as it is ordered: the body of `POST /v1/runs`, and a line of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.spec import RunSpec, parse_task
from orchestrator.yamlfile import Document

MultitaskStrategy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""What becomes of a new run when another one of its thread has not ended."""


@dataclass(frozen=True)
class Order:
    """What one run is made of. The same uploads may be named by any number of orders."""

    task: RunSpec | Mapping[str, Any]
    """Its files are the `uploads`: it names none of this machine."""
    uploads: Mapping[str, str] = field(default_factory=dict)
    """Ids of uploads: `inputs`, `model`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the variables that the task names, and of the one with its model's key."""
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int | None = None
    thread_id: str | None = None
    multitask_strategy: MultitaskStrategy | None = None

    def body(self) -> dict[str, Any]:
        """As JSON. What is as it is by default is left out, so that a server of another version has less to refuse."""
        task = self.task.model_dump(mode="json", exclude_defaults=True) if isinstance(self.task, RunSpec) else dict(self.task)
        given = {
            "task": task,
            "uploads": dict(self.uploads),
            "secrets": dict(self.secrets),
            "labels": dict(self.labels),
            "priority": self.priority,
            "thread_id": self.thread_id,
            "multitask_strategy": self.multitask_strategy,
        }
        return {name: value for name, value in given.items() if value not in (None, {})}


def order_of(given: Order | RunSpec | Mapping[str, Any]) -> Order:
    """An order as it is, or that of a task without files. Raises `BadInput`."""
    return given if isinstance(given, Order) else Order(task_of(given))


def task_of(task: RunSpec | Mapping[str, Any]) -> RunSpec:
    """The task that these values describe. Raises `BadInput`."""
    return task if isinstance(task, RunSpec) else parse_task(Document(dict(task), "task"))
