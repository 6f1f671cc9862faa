"""What the API answers with: frozen, typed, and tolerant of what a newer server adds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.errors import ErrorKind
from orchestrator.runs.models import AttemptStatus, RunStatus

T = TypeVar("T")


class Answer(BaseModel):
    """Base of every answer. Fields that this version does not know are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Page(Answer, Generic[T]):
    """One page of a list, the newest first."""

    items: tuple[T, ...]
    next_cursor: str | None = None
    """Of the next page; None after the last one."""


class Listing(Answer, Generic[T]):
    """A whole list."""

    items: tuple[T, ...]


class Problem(Answer):
    """Why a run or an attempt ended badly."""

    kind: ErrorKind
    message: str


class Run(Answer):
    """One run as it was when the server answered. The fields are those of `orchestrator.runs.models.Run`."""

    id: str
    name: str
    status: RunStatus
    tenant: str
    labels: Mapping[str, str] = {}
    priority: int = 0
    thread_id: str | None = None
    batch_id: str | None = None
    attempt: int = 0
    worker: str | None = None
    parent_id: str | None = None
    root_id: str | None = None
    depth: int = 0
    fan_out: str | None = None
    place: int | None = None
    lost: int = 0
    cancel_requested: bool = False
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: Problem | None = None
    exit_code: int | None = None
    """What the command line ends with; None while the run goes on."""
    provider: str = "local"
    """Where its sandbox is, or is to be; `auto` until that is known."""
    interrupt: dict[str, Any] | None = None
    """What a person is asked, while the run is `interrupted`."""
    decide_by: datetime | None = None
    task: dict[str, Any]
    """The `RunSpec` as JSON."""


class Event(Answer):
    """Something that happened. `seq` counts from 1 without gaps; the types are those of `orchestrator.runs.models.Event`."""

    seq: int
    type: str
    at: datetime
    data: dict[str, Any] = {}


class Events(Answer):
    """Events of a run, in order."""

    items: tuple[Event, ...]
    ended: bool
    """Whether the run has ended, and nothing comes after these."""


class Attempt(Answer):
    """One attempt at a run. `provider` and `sandbox` are None when it never had a sandbox."""

    attempt: int
    worker: str
    status: AttemptStatus
    started_at: datetime
    finished_at: datetime | None = None
    error: Problem | None = None
    provider: str | None = None
    sandbox: str | None = None
    sandbox_seconds: float | None = None


class Usage(Answer):
    """What one agent has used of one model in one attempt. `agent` is empty for the run's own."""

    attempt: int
    agent: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_micros: int | None = None
    """Millionths of a USD; None without a price."""


class Spent(Answer):
    """What was used: tokens given to models and made by them, sandboxes, and the cost of models that have a price."""

    tokens: int
    cost_micros: int
    """Millionths of a USD."""
    sandbox_seconds: float


class SpentWithChildren(Answer):
    """The part of a run's usage that is of the runs below it, too."""

    with_children: Spent


class Artifact(Answer):
    """A file that a run left. `size` is in bytes."""

    name: str
    size: int
    sha256: str
    created_at: datetime


class Pruned(Answer):
    """Ids of runs that were removed, or would be."""

    items: tuple[str, ...]


class Upload(Answer):
    """A file that a run can be made with. `size` is in bytes."""

    id: str
    size: int
    sha256: str
    created_at: datetime


class Worker(Answer):
    """A worker that is alive."""

    id: str
    host: str
    pid: int
    concurrency: int
    started_at: datetime
    heartbeat_at: datetime


class Me(Answer):
    """Whose key this is, and what it may do."""

    tenant: str
    key_id: str
    scopes: tuple[str, ...]


class Key(Answer):
    """A key of a tenant, without what makes it one."""

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None
    """When it was last used, to about a minute."""


class NewKey(Key):
    """A key that was just made."""

    key: str = Field(repr=False)
    """The key itself. It is told only now."""


class Limits(Answer):
    """What a tenant may; None is no limit."""

    weight: float = 1.0
    """Its share of the workers, against the others'."""
    max_running: int | None = None
    max_queued: int | None = None
    max_requests: int | None = None
    """A minute."""
    max_tokens: int | None = None
    max_cost_micros: int | None = None
    """Millionths of a USD."""
    max_sandbox_seconds: float | None = None


class Tenant(Limits):
    """A tenant, and what it may."""

    id: str
    created_at: datetime


class TenantUsage(Answer):
    """What the runs of a tenant that are in the record have used."""

    runs: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    """Millionths of a USD, of the models that have a price."""
    sandbox_seconds: float


class Schedule(Answer):
    """Something that is run again and again."""

    id: str
    tenant: str
    name: str
    cron: str
    timezone: str
    run: dict[str, Any]
    """What is submitted each time, as `POST /v1/runs` takes it."""
    overlap: str
    enabled: bool
    created_at: datetime
    next_at: datetime | None = None
    """When it is due next; None while it is disabled."""
    last_at: datetime | None = None
    last_run_id: str | None = None
    last_error: str | None = None
    """Why there was no run the last time; None when there was one."""


class Webhook(Answer):
    """Where a tenant is told of its runs."""

    id: str
    tenant: str
    url: str
    events: tuple[str, ...]
    enabled: bool
    created_at: datetime


class NewWebhook(Webhook):
    """A webhook that was just made."""

    secret: str = Field(repr=False)
    """What its deliveries are signed with. It is told only now."""


class Delivery(Answer):
    """One event for one webhook. It is `waiting`, and then `delivered` or `failed` for good."""

    id: str
    webhook_id: str
    run_id: str | None = None
    event: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None = None
    """When it is sent (again); None when it never is."""
    answer: int | None = None
    """The status of the receiver's last answer."""
    error: str | None = None


class Batch(Answer):
    """Many runs that were submitted in one call."""

    id: str
    tenant: str
    name: str
    created_at: datetime
    size: int
    """The runs that it was submitted with."""
    counts: Mapping[RunStatus, int] = {}
    """How many of them have which status, as far as they were not removed since."""


class LineError(Answer):
    """Why a line of a batch was not taken. Lines are counted from 1."""

    line: int
    detail: str


class NewBatch(Batch):
    """A batch that was just submitted."""

    errors: tuple[LineError, ...] = ()
    """Of a partial one: lines that were not taken, the first of them."""


class Thread(Answer):
    """A conversation that several runs have one after the other."""

    id: str
    tenant: str
    created_at: datetime
    metadata: dict[str, Any] = {}


class ToolCall(Answer):
    """What an agent asked of a tool."""

    id: str
    name: str
    args: dict[str, Any]


class Message(Answer):
    """Something that was said in a thread. `role` is `user`, `assistant`, `tool` or `system`."""

    role: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """Of a tool's answer: the call that it answers."""


class Sandbox(Answer):
    """A sandbox of a run."""

    id: str
    provider: str
    run_id: str
    attempt: int | None = None
    state: str
    """`owned`: its run goes on. `kept`: somebody keeps it. `orphan`: it is about to be ended."""
    created_at: datetime | None = None
    expires_at: datetime | None = None
    """When it ends by itself, whoever keeps it."""
    kept_until: datetime | None = None


class SandboxList(Answer):
    """The sandboxes that the server reaches, the newest first."""

    items: tuple[Sandbox, ...]
    unreachable: Mapping[str, str] = {}
    """Providers that it could not ask, and why: theirs are missing."""


class Executed(Answer):
    """How a command in a sandbox ended, and what it printed; secrets of the run are `***`."""

    exit_code: int
    stdout: str
    stderr: str
    timed_out: bool
    truncated: bool
    """Whether it printed more than what is told."""
