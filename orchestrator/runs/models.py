"""The types of the record, frozen: only the store changes a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from orchestrator.errors import ErrorKind
from orchestrator.settings import DEFAULT_TENANT as DEFAULT_TENANT


class RunStatus(StrEnum):
    """Where a run is in its life."""

    PENDING = "pending"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    """It waits for a person's decision."""
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the run has ended: nothing about it changes any more."""
        return not TRANSITIONS[self]


TRANSITIONS: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.PENDING: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.ERROR}),
    RunStatus.RUNNING: frozenset(RunStatus) - {RunStatus.RUNNING},
    RunStatus.INTERRUPTED: frozenset({RunStatus.PENDING, RunStatus.CANCELLED, RunStatus.ERROR, RunStatus.TIMEOUT}),
    RunStatus.SUCCESS: frozenset(),
    RunStatus.ERROR: frozenset(),
    RunStatus.TIMEOUT: frozenset(),
    RunStatus.CANCELLED: frozenset(),
}
"""The legal steps. A run whose worker died stays `running` and is claimed again; one that was handed over is `pending`."""


class AttemptStatus(StrEnum):
    """How far an attempt is. It is `running`, and then one of the others for good."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    RELEASED = "released"
    """Its worker was told to leave, and left the run to another one."""
    LOST = "lost"
    """Its worker was silent for so long that another one claimed the run."""

    @property
    def over(self) -> bool:
        """Whether the attempt has ended."""
        return self is not AttemptStatus.RUNNING


_EXIT_CODES = {RunStatus.SUCCESS: 0, RunStatus.TIMEOUT: 4, RunStatus.CANCELLED: 130}
_ERROR_EXIT_CODES: dict[ErrorKind, int] = {"task": 1, "input": 2, "infrastructure": 3}


@dataclass(frozen=True)
class RunError:
    """Why a run ended badly."""

    kind: ErrorKind
    message: str


@dataclass(frozen=True)
class NewRun:
    """A run as it is submitted."""

    id: str
    name: str
    spec: dict[str, Any]
    tenant: str = DEFAULT_TENANT
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    thread_id: str | None = None
    batch_id: str | None = None
    ready_at: datetime | None = None
    """Not before that moment."""
    traceparent: str | None = None
    frozen: tuple[Artifact, ...] = ()
    """What was frozen for it, where that is in the place of the artifacts."""
    parent_id: str | None = None
    """This and what follows is as in `Run`. `Family.begin` fills it in for the children of a fan-out."""
    root_id: str | None = None
    depth: int = 0
    fan_out: str | None = None
    place: int | None = None


@dataclass(frozen=True)
class Run:
    """One run as it was when it was read."""

    id: str
    name: str
    status: RunStatus
    spec: dict[str, Any]
    """The `RunSpec` as JSON."""
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: RunError | None = None
    attempt: int = 0
    """Counted from 1 when a worker begins; more after a retry or after a worker died."""
    cancel_requested: bool = False
    worker: str | None = None
    """The worker that holds, or held, the lease."""
    heartbeat_at: datetime | None = None
    """When that worker was last heard of."""
    sandbox: dict[str, Any] | None = None
    """Handle of the live sandbox, as JSON."""
    sandbox_ready: bool = False
    """Whether the inputs are in it: from then on the task may have begun there."""
    provider: str = "local"
    """Where its sandbox is, or is to be; `auto` until that is known."""
    tenant: str = DEFAULT_TENANT
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    """Of a tenant's runs that wait, the highest goes first."""
    thread_id: str | None = None
    batch_id: str | None = None
    lost: int = 0
    """How many workers have died of it, or with it, each within a minute of its beginning."""
    interrupt: dict[str, Any] | None = None
    """What a person is asked, while it is `interrupted`."""
    decision: dict[str, Any] | None = None
    """What a person has answered, until the run has taken it."""
    decide_by: datetime | None = None
    """When the question expires."""
    waited: float = 0.0
    """Seconds that it waited for people; they do not count as its time."""
    traceparent: str | None = None
    """The trace that it belongs to, as W3C's header has it."""

    epoch: int = 0
    """The attempt in which its task was begun from the inputs: later ones that have the same go on with what that began."""
    outcome: dict[str, Any] | None = None
    """How it is going to end: `{"status", "error": {"kind", "message"} | None}`. All that is left to do is to clear up."""
    snapshot: str | None = None
    """SHA-256 of what the workspace was when it was interrupted, where its sandbox was not kept."""

    parent_id: str | None = None
    """The run whose fan-out it is a child of; None for a run that somebody submitted."""
    root_id: str | None = None
    """The run at the top of its tree; None for that run itself."""
    depth: int = 0
    """How far it is below that run."""
    fan_out: str | None = None
    """The key of the fan-out within its parent."""
    place: int | None = None
    """Its place among the children of the fan-out, in task order, from 0."""

    @property
    def top(self) -> str:
        """The run at the top of its tree, which may be itself."""
        return self.root_id or self.id

    @property
    def may_have_children(self) -> bool:
        """Whether it can have children at all: only agents and fan-outs do, once they have begun."""
        return self.attempt > 0 and bool(self.spec.get("agent") or self.spec.get("fan_out"))

    @property
    def exit_code(self) -> int | None:
        """What the command line ends with; None while the run goes on."""
        if not self.status.terminal:
            return None
        if self.status is RunStatus.ERROR:
            return _ERROR_EXIT_CODES[self.error.kind if self.error else "infrastructure"]
        return _EXIT_CODES[self.status]


@dataclass(frozen=True)
class Lease:
    """A worker's right to write to a run, until it finishes or another one claims it."""

    run_id: str
    token: int
    """Grows with each claim of the run."""
    worker: str


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run: what one worker did with one sandbox."""

    run_id: str
    number: int
    """Counts from 1 without gaps."""
    worker: str
    status: AttemptStatus
    started_at: datetime
    finished_at: datetime | None = None
    """Of a lost attempt: when its worker was last heard of."""
    error: RunError | None = None
    provider: str | None = None
    """The provider of its sandbox; None when it never had one."""
    sandbox_id: str | None = None
    sandbox_seconds: float | None = None
    """How long it had sandboxes; None until it has ended, and when it was lost."""


@dataclass(frozen=True)
class ModelUsage:
    """What one agent has used of one model in one attempt."""

    attempt: int
    agent: str
    """The name of a subagent; empty for the run's own agent."""
    model: str
    """`provider:name`, as far as the model tells."""
    calls: int
    input_tokens: int
    """With what the provider had in its cache or has put there."""
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_micros: int | None
    """Millionths of a USD; None when the operator has given no price for the model."""


@dataclass(frozen=True)
class NewEvent:
    """Something that happened, not yet in the record."""

    type: str
    data: dict[str, Any]
    at: datetime


@dataclass(frozen=True)
class Head:
    """How far a run is: what those who follow it have to know before they look for more."""

    last_seq: int
    """The number of its last event; 0 before the first."""
    ended: bool

    def beyond(self, seq: int) -> bool:
        """Whether there are events after this one, or none are to come."""
        return self.ended or self.last_seq > seq


@dataclass(frozen=True)
class Event:
    """Something that happened in a run. `seq` counts from 1 without gaps.

    Types and the keys of `data`: run.started {attempt, worker, resumed}, provider.chosen {provider, passed_over:
    [{provider, reason}]}, sandbox.created {id, provider}, sandbox.adopted
    {id, provider}, input.ready {bytes}, command.started {command}, command.output {stream, text, offset}, command.finished
    {exit_code}, model.message {id, text, usage}, tool.call {id, name, args}, tool.result {id, name, text, status},
    todos.updated {todos}, verify.started {command}, verify.output {stream, text, offset}, verify.finished {exit_code},
    artifact.created {name, size}, run.interrupted {actions, decide_by}, run.decided {decisions}, fan_out.started {key,
    children: [{run, name}]}, child.finished {run, name, status, error}, merge.finished {key, merged, conflicts, left_out},
    log {level, text}, run.finished {status, error}.

    `provider.chosen` is told where there was a choice; `passed_over` are those that were preferred. `resumed` says that the
    attempt goes on where the last one was. `offset` counts the bytes of the stream up to the end of this piece; a piece that
    was cut has none.

    Output that is not UTF-8 has a key `base64` too, with the very bytes of which `text` is the readable form.
    """

    run_id: str
    seq: int
    type: str
    at: datetime
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Artifact:
    """A file that a run left."""

    run_id: str
    name: str
    """A relative path without `..`: `patch.diff`, `command.log`, `files/reports/unit.xml`."""
    size: int
    """Bytes."""
    sha256: str
    created_at: datetime


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that has said that it is alive."""

    id: str
    host: str
    pid: int
    concurrency: int
    started_at: datetime
    heartbeat_at: datetime
    queues: Sequence[str] = ("fanfold",)
    """The queues that it takes runs from."""
    providers: Mapping[str, str | None] | None = None
    """The providers that it knows, with why it cannot have a sandbox of one; None when it does not tell."""
