"""What the API answers with, as models: one shape for each thing, the same in every route."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel

from orchestrator.api.nesting import ToldObject
from orchestrator.runs.models import Artifact, Attempt, Event, ModelUsage, Run
from orchestrator.runs.spent import Spent


class ErrorModel(BaseModel):
    """Why a run, or an attempt at it, ended badly."""

    kind: str
    """`task`, `input` or `infrastructure`: who can mend it."""
    message: str


class RunModel(BaseModel):
    """A run."""

    id: str
    name: str
    status: str
    tenant: str
    labels: dict[str, str]
    priority: int
    thread_id: str | None
    batch_id: str | None
    attempt: int
    worker: str | None
    """The worker that has it, or had it."""
    parent_id: str | None
    """The run whose child it is; null for a run that somebody submitted."""
    root_id: str | None
    """The run at the top of its tree; null for that run itself."""
    depth: int
    """How far it is below that run."""
    fan_out: str | None
    """The fan-out of its parent that made it."""
    place: int | None
    """Its place among the children of that, from 0."""
    lost: int
    """How many workers have died of it, or with it."""
    cancel_requested: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: ErrorModel | None
    exit_code: int | None
    """What `fanfold run` would end with; null while the run goes on."""
    provider: str
    """Where its sandbox is, or is to be; `auto` until that is known."""
    interrupt: ToldObject | None
    """What a person is asked, while it is `interrupted`."""
    decide_by: datetime | None
    task: dict[str, Any]

    @classmethod
    def of(cls, run: Run) -> RunModel:
        """From the record's."""
        same = {name: getattr(run, name) for name in _SAME}
        return cls(
            **same,
            status=run.status.value,
            labels=dict(run.labels),
            error=ErrorModel(**vars(run.error)) if run.error else None,
            exit_code=run.exit_code,
            provider=run.provider,
            task=run.spec,
        )


_SAME = (
    "id", "name", "tenant", "priority", "thread_id", "batch_id", "attempt", "worker", "lost", "cancel_requested", "created_at",
    "started_at", "finished_at", "interrupt", "decide_by", "parent_id", "root_id", "depth", "fan_out", "place",
)  # fmt: skip


class RunPage(BaseModel):
    """Some of the runs, newest first."""

    items: list[RunModel]
    next_cursor: str | None
    """For `cursor` of the next request; null at the end."""


class Runs(BaseModel):
    """Runs, those nearest to the top of their tree first."""

    items: list[RunModel]


class EventModel(BaseModel):
    """Something that happened in a run."""

    seq: int
    type: str
    at: datetime
    data: ToldObject

    @classmethod
    def of(cls, event: Event) -> EventModel:
        """From the record's."""
        return cls(seq=event.seq, type=event.type, at=event.at, data=event.data)


class EventPage(BaseModel):
    """What happened next in a run."""

    items: list[EventModel]
    ended: bool
    """Whether nothing comes after them."""


class AttemptModel(BaseModel):
    """One attempt at a run. `provider` and `sandbox` are null when it never had a sandbox."""

    attempt: int
    worker: str
    status: str
    error: ErrorModel | None
    started_at: datetime
    finished_at: datetime | None
    provider: str | None
    sandbox: str | None
    sandbox_seconds: float | None

    @classmethod
    def of(cls, attempt: Attempt) -> AttemptModel:
        """From the record's."""
        return cls(
            attempt=attempt.number,
            worker=attempt.worker,
            status=attempt.status.value,
            error=ErrorModel(**vars(attempt.error)) if attempt.error else None,
            started_at=attempt.started_at,
            finished_at=attempt.finished_at,
            provider=attempt.provider,
            sandbox=attempt.sandbox_id,
            sandbox_seconds=attempt.sandbox_seconds,
        )


class Attempts(BaseModel):
    """The attempts at a run, in order."""

    items: list[AttemptModel]


class UsageModel(BaseModel):
    """What one agent used of one model in one attempt."""

    attempt: int
    agent: str
    """The name of a subagent; empty for the run's own agent."""
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_micros: int | None
    """Millionths of a USD; null when the model has no price."""

    @classmethod
    def of(cls, usage: ModelUsage) -> UsageModel:
        """From the record's."""
        return cls(**vars(usage))


class SpentModel(BaseModel):
    """What was used up to now."""

    tokens: int
    cost_micros: int
    """Millionths of a USD, of the models that have a price."""
    sandbox_seconds: float

    @classmethod
    def of(cls, spent: Spent) -> SpentModel:
        """From the record's."""
        return cls(**vars(spent))


class Usages(BaseModel):
    """What the attempts at a run that have ended used of models."""

    items: list[UsageModel]
    with_children: SpentModel
    """What the run and all below it used altogether, as far as they are."""


class ArtifactModel(BaseModel):
    """A file that a run left."""

    name: str
    size: int
    sha256: str
    created_at: datetime

    @classmethod
    def of(cls, artifact: Artifact) -> ArtifactModel:
        """From the record's."""
        return cls(name=artifact.name, size=artifact.size, sha256=artifact.sha256, created_at=artifact.created_at)


class Artifacts(BaseModel):
    """What a run has left so far, by name."""

    items: list[ArtifactModel]


class Ids(BaseModel):
    """Ids of things."""

    items: list[str]
