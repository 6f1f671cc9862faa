"""Runs: submitting them, following them, and what they left; and the way to the other rooms."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

from orchestrator.errors import (
    BadInput,
    Conflict,
    InfrastructureError,
    NotFound,
    RecordUnavailable,
    RunNotFound,
    WorkerUnavailable,
)
from orchestrator.runs.listing import Filters, Listing, Page
from orchestrator.runs.models import Artifact, Attempt, Event, Head, ModelUsage, NewRun, Run, RunError, RunStatus, WorkerInfo
from orchestrator.runs.reading import MAX_EVENTS
from orchestrator.runs.retention import discard
from orchestrator.runs.spent import Spent
from orchestrator.runs.store import now
from orchestrator.runs.threads import Multitask
from orchestrator.service.batches import Batches
from orchestrator.service.decisions import checked
from orchestrator.service.health import check_installation
from orchestrator.service.installation import Installation
from orchestrator.service.keys import KeyRing
from orchestrator.service.once import Once
from orchestrator.service.orders import RunOrder
from orchestrator.service.placing import Placing
from orchestrator.service.preparing import Preparing
from orchestrator.service.sandboxes import SandboxRoom
from orchestrator.service.schedules import ScheduleRoom
from orchestrator.service.tenants import TenantBook
from orchestrator.service.threads import Threads
from orchestrator.service.uploads import UploadRoom
from orchestrator.service.webhooks import WebhookRoom
from orchestrator.service.workers import Workers
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.telemetry.metrics import Metrics
from orchestrator.telemetry.traces import span

FOLLOW_POLL = 0.03
"""Seconds between two looks for new events."""
LIVENESS_POLL = 2.0
"""Seconds without events between two looks whether the run still has a worker."""
WORKER_GRACE = 20.0
"""Seconds without a heartbeat after which a run's worker counts as dead to those who follow it."""

Named = Literal["inputs", "model", "dockerfile"]


class Service:
    """Submits runs and tells about them. Close it when done, or use it in a `with` statement."""

    def __init__(self, settings: Settings, *, tenant: str | None = None, installation: Installation | None = None) -> None:
        """`tenant` is that of the settings when it is left out."""
        self.tenant = tenant or settings.tenant
        self._of = installation or Installation(settings)
        self._workers = Workers(self._of)
        self._preparing = Preparing(self._of, self.tenant)

    def of(self, tenant: str) -> Service:
        """The door of another tenant, over the same connections."""
        return Service(self._of.settings, tenant=tenant, installation=self._of)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections to the record and the queue, for every tenant."""
        self._of.close()

    @property
    def settings(self) -> Settings:
        """The settings of the installation."""
        return self._of.settings

    @property
    def broker_url(self) -> str:
        """The address of the broker, as kombu writes it."""
        return self._of.broker.url

    def check(self) -> None:
        """See that the record and the broker answer; an embedded broker is started. Raises `InfrastructureError`."""
        check_installation(self._of)

    @property
    def metrics(self) -> Metrics:
        """What this process counts, and what the record does, for every tenant: `metrics.render()`."""
        return self._of.metrics

    # Rooms

    @property
    def keys(self) -> KeyRing:
        """The tenant's keys of the API."""
        return KeyRing(self._of, self.tenant)

    @property
    def tenants(self) -> TenantBook:
        """All tenants, whatever this door's is: for the operator."""
        return TenantBook(self._of)

    @property
    def uploads(self) -> UploadRoom:
        """What the tenant sent for runs to come."""
        return UploadRoom(self._of, self.tenant)

    @property
    def threads(self) -> Threads:
        """The tenant's conversations."""
        return Threads(self._of, self.tenant)

    @property
    def batches(self) -> Batches:
        """Runs of the tenant that were submitted together."""
        return Batches(self._of, self.tenant)

    @property
    def once(self) -> Once:
        """Requests that are done once, however often they come."""
        return Once(self._of.idempotency, self.tenant)

    @property
    def schedules(self) -> ScheduleRoom:
        """What is run again and again for the tenant."""
        return ScheduleRoom(self._of, self)

    @property
    def sandboxes(self) -> SandboxRoom:
        """The sandboxes of the tenant's runs."""
        return SandboxRoom(self._of, self.tenant)

    @property
    def webhooks(self) -> WebhookRoom:
        """Where the tenant is told of its runs."""
        return WebhookRoom(self._of, self.tenant)

    # Runs

    @span("submit")
    def submit(
        self,
        spec: RunSpec,
        *,
        base_dir: Path,
        granted: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        named: Collection[Named] = (),
        placing: Placing = Placing(),  # noqa: B008 (it is frozen)
        run_id: str | None = None,
    ) -> Run:
        """Freeze what the run needs, record the run, and put it on the queue.

        `base_dir` is the task file's folder: paths in the spec are relative to it and may not leave it, but for the parts in
        `named`, which the person who submits has named (on a command line) rather than the task's author. `granted` are the
        variables of `environ` (default: this process's) that the task may take as secrets, beside `FANFOLD_ALLOWED_SECRETS`.
        `run_id` is the id that a request gave the run beforehand, when it is told apart from others (`once`). Call
        `ensure_worker` afterwards to have the run executed by this machine.

        Raises `BadInput`, and then nothing was recorded; or `InfrastructureError`.
        """
        environ = os.environ if environ is None else environ
        new = self._preparing.task(
            spec, base_dir=base_dir, granted=granted, environ=environ, named=named, placing=placing, run_id=run_id
        )
        return self._record(new, placing.multitask, lasts=run_id is not None)

    @span("submit")
    def order(self, order: RunOrder, *, traceparent: str | None = None, run_id: str | None = None) -> Run:
        """Submit a run that is ordered from elsewhere; see `RunOrder`. Raises as `submit`, and `NotFound` for an upload."""
        new = self._preparing.order(order, traceparent=traceparent, run_id=run_id)
        return self._record(new, order.multitask_strategy or Multitask.ENQUEUE, lasts=run_id is not None)

    @span("submit")
    def retry(
        self,
        run_id: str,
        *,
        secrets: Mapping[str, str] | None = None,
        traceparent: str | None = None,
        new_id: str | None = None,
    ) -> Run:
        """Submit a new run of the same task, with the inputs, the labels and the priority of a run that has ended.

        Secrets were forgotten when it ended: `secrets` are their values by the submitter's variables, beside those of
        `FANFOLD_ALLOWED_SECRETS`; None takes this process's environment. Raises `Conflict` while the run goes on, or when it
        is a child, and what `submit` raises.
        """
        run = self.get(run_id)
        if run.parent_id is not None:
            raise Conflict(f"run {run.id} is a child of run {run.parent_id}, and began with its files: retry run {run.top}")
        if not run.status.terminal:
            raise Conflict(f"run {run.id} is {run.status.value}: it can be run again when it has ended, or cancel it")
        new = self._preparing.again(run, secrets=secrets, traceparent=traceparent, new_id=new_id)
        return self._record(new, lasts=new_id is not None)

    def _record(self, new: NewRun, multitask: Multitask = Multitask.ENQUEUE, *, lasts: bool = False) -> Run:
        """Record a run that was prepared, and put it on the queue.

        Without a broker it is given up, unless it `lasts`: whoever asked for it may ask once more, and gets this very run. It
        waits in the record until there is a broker.
        """
        try:
            run, added = self._of.dispatching.add(new, multitask)
        except RecordUnavailable:  # it may have been recorded all the same, and then needs what was frozen for it
            raise
        except BaseException:
            self._preparing.drop(new)
            raise
        for ended in added.ended:
            self._of.folder(ended).forget_secrets()
        try:
            self._of.send(added)
        except InfrastructureError as exc:
            if lasts:
                return run
            self._of.store.abandon(run.id, RunError("infrastructure", str(exc)))
            self._of.folder(run.id).forget_secrets()
            raise
        return run

    def get(self, run_id: str) -> Run:
        """The run with this id, or whose id begins so (`run-` may be left out). Raises `RunNotFound`."""
        prefix = run_id if run_id.startswith("run-") else f"run-{run_id}"
        found = self._of.store.find(prefix, tenant=self.tenant)
        if len(found) > 1:
            raise RunNotFound(f"more than one run begins with '{run_id}': give more of its id")
        if not found:
            raise RunNotFound(f"there is no run '{run_id}'; `fanfold runs ls` lists them")
        return found[0]

    def children(self, run_id: str) -> Sequence[Run]:
        """All runs below a run, at any depth: those nearest to it first, and then in the order of their tasks."""
        return self._of.family.tree(self.get(run_id).id)

    def cancel(self, run_id: str) -> Run:
        """Ask for a run to stop; it is terminal soon after (see `follow`). One that has ended stays as it is."""
        before = self.get(run_id)
        run = self._of.store.request_cancel(before.id)
        if run.status.terminal:
            for one in (run, *self._of.family.tree(run.id)):
                self._of.folder(one.id).forget_secrets()
            if before.status is RunStatus.INTERRUPTED:
                self._of.nudge(run.id)
        return run

    def decide(self, run_id: str, decisions: Sequence[Mapping[str, Any]]) -> Run:
        """Answer what an interrupted run asks, one decision for each action in its `interrupt`; it goes on then.

        Raises `IllegalTransition` when it asks nothing, `BadInput` when the decisions do not fit.
        """
        run = self.get(run_id)
        decided = self._of.store.decide(run.id, checked(run, decisions))
        with suppress(InfrastructureError):  # the record knows the decision: a controller sends the run
            self._of.enqueue(run.id)
        return decided

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """What has happened in a run so far, in order, beginning after the event numbered `after`."""
        run = self.get(run_id)
        while page := self._of.store.events(run.id, after):
            yield from page
            after = page[-1].seq

    def events_after(self, run_id: str, after: int = 0, limit: int = MAX_EVENTS) -> tuple[Sequence[Event], bool]:
        """At most `limit` events of a run that come after the one numbered `after`; and whether none comes after them."""
        most = min(limit, MAX_EVENTS)
        try:
            return self._of.store.tail(run_id, after, most, tenant=self.tenant)
        except RunNotFound:
            return self._of.store.tail(self.get(run_id).id, after, most, tenant=self.tenant)

    def heads(self, run_ids: Collection[str]) -> Mapping[str, Head]:
        """How far the runs with these very ids are, of any tenant: the caller has made sure who may know it."""
        return self._of.store.heads(run_ids)

    def follow(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """What has happened and what happens, as it does, until the run has ended.

        Raises `InfrastructureError` when the run waits for a worker that has died, or when no worker is alive.
        """
        run = self.get(run_id)
        ended, look = run.status.terminal, time.monotonic() + LIVENESS_POLL
        while True:
            page = self._of.store.events(run.id, after)
            for event in page:
                yield event
                after = event.seq
                if event.type == "run.finished":
                    return
            if page:
                look = time.monotonic() + LIVENESS_POLL
            elif ended:
                return
            elif time.monotonic() > look:
                ended, look = self._has_ended(run.id), time.monotonic() + LIVENESS_POLL
            else:
                time.sleep(FOLLOW_POLL)

    def _has_ended(self, run_id: str) -> bool:
        """Whether the run has ended. Raises `InfrastructureError` when it has not, and nobody works on it."""
        run = self._of.store.get(run_id)
        if run.status is RunStatus.PENDING and not self._of.store.workers(WORKER_GRACE):
            raise WorkerUnavailable(f"run {run_id} waits, and no worker is alive; start one with `fanfold worker`")
        if run.status is RunStatus.RUNNING and run.heartbeat_at is not None:
            silence = (now() - run.heartbeat_at).total_seconds()
            if silence > WORKER_GRACE:
                raise InfrastructureError(
                    f"run {run_id}: its worker {run.worker} has been silent for {silence:.0f} s and is taken for dead;"
                    f" the next worker begins the run again (`fanfold worker`), or `fanfold runs cancel {run_id}`"
                )
        return run.status.terminal

    def attempts(self, run_id: str) -> Sequence[Attempt]:
        """The attempts at a run so far, in order: each one's worker, times, sandbox and error."""
        return self._of.store.attempts(self.get(run_id).id)

    def usage(self, run_id: str) -> Sequence[ModelUsage]:
        """What the attempts at a run that have ended used of models, by attempt, agent and model."""
        return self._of.store.usage(self.get(run_id).id)

    def spent(self, run_id: str) -> Spent:
        """What a run and all below it have used up to now."""
        return self._of.store.spent_with_children(self.get(run_id).id)

    # Artifacts

    def artifacts(self, run_id: str) -> list[Artifact]:
        """What a run has left so far, by name."""
        return self._of.store.artifacts(self.get(run_id).id)

    def open_artifact(self, run_id: str, name: str) -> BinaryIO:
        """The content of an artifact as a file to be closed; it is fetched as it is read, and can be sought.

        The read that reaches its end raises `InfrastructureError` when all of it was read and it is not what the run left.
        Raises `NotFound` when there is no artifact of this name, `InfrastructureError` when its content is not to be had.
        """
        run = self.get(run_id)
        for artifact in self._of.store.artifacts(run.id):
            if artifact.name == name:
                path = self._of.folder(run.id).earlier_artifact(artifact)
                return path.open("rb") if path else self._of.artifacts.open(artifact.sha256, verify=True)
        raise NotFound(f"run {run.id} has no artifact '{name}'; `fanfold runs show {run.id}` lists them")

    def artifact_place(self, artifact: Artifact) -> Path | str:
        """Where the content of an artifact is: a path of this machine, or an address."""
        return self._of.folder(artifact.run_id).earlier_artifact(artifact) or self._of.artifacts.place(artifact.sha256)

    # Retention

    def prune(self, *, older_than: float | None = None, keep: int | None = None, dry_run: bool = False) -> Sequence[str]:
        """Remove runs that ended more than `older_than` seconds ago and are not among the last `keep` that ended; their ids.

        With them go their events, attempts, artifacts and folders. With `dry_run` nothing is removed. Raises `BadInput` when
        neither bound is given.
        """
        if older_than is None and keep is None:
            raise BadInput("say which runs are to be removed: those older than some time, all but the last ones, or both")
        chosen = self._of.store.prunable(older_than=older_than, keep=keep, tenant=self.tenant)
        if not dry_run:
            self._of.artifacts.check(self._of.store.installation())
            discard(self._of.store, chosen, runs_dir=self._of.settings.runs_dir, artifacts=self._of.artifacts)
        return chosen

    # Workers

    def workers(self) -> list[WorkerInfo]:
        """The workers that are alive, the oldest first."""
        return self._workers.alive()

    def ensure_worker(self) -> WorkerInfo:
        """A worker that is alive; when there is none, one is started on this machine, and leaves when it has been idle.

        Two callers at once start one. Raises `WorkerUnavailable` when it does not come up.
        """
        return self._workers.ensure()

    # Lists. (Below the others: in a class, `list` hides the type of that name.)

    def page(self, filters: Filters, *, limit: int = 50, cursor: str | None = None) -> Page:
        """A page of the tenant's runs, newest first. Raises `BadInput` for a cursor that was not made here."""
        return Listing(self._of.engine).page(filters, tenant=self.tenant, limit=limit, cursor=cursor)

    def list(self, status: RunStatus | None = None, limit: int = 50, *, with_children: bool = False) -> Sequence[Run]:
        """The newest runs first, of this status or of all. Those that are children are left out, unless they are asked for."""
        return self._of.store.recent(status, limit, with_children=with_children, tenant=self.tenant)
