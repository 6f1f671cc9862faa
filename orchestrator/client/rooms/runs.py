"""Runs: making them, following them, and what they left."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.client.caller import Caller, at, new_key
from orchestrator.client.driving import Blocking, blocking, iterating
from orchestrator.client.freezing import Parcel, packed
from orchestrator.client.models import (
    Artifact,
    Attempt,
    Event,
    Events,
    Listing,
    Page,
    Pruned,
    Run,
    Spent,
    SpentWithChildren,
    Usage,
)
from orchestrator.client.orders import MultitaskStrategy, Order
from orchestrator.client.rooms.download import fetch
from orchestrator.client.rooms.follow import PAGE, follow, page
from orchestrator.client.rooms.paging import DEFAULT_LIMIT, every
from orchestrator.client.rooms.uploads import AsyncUploads
from orchestrator.client.transport import Ask
from orchestrator.errors import NotFound
from orchestrator.runs.models import RunStatus
from orchestrator.spec import RunSpec

JOIN_MARGIN = 30.0
"""Seconds that the answer to `join` may come later than it was asked for."""
MAX_JOIN = 300.0
"""Seconds for which one question waits for a run's end; a longer `join` asks again."""
JOIN_PAUSE = 0.2
"""Seconds before it asks again: a server that is about to leave answers early."""


class AsyncRuns:
    """Runs of the key's tenant. `run_id` may be the unique beginning of an id.

    Everything raises `NotFound`, `Conflict`, `QuotaExceeded` or another `BadInput` for what the server refuses, and
    `InfrastructureError` when it cannot be reached or fails.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self,
        task: RunSpec | Mapping[str, Any],
        *,
        base_dir: Path | None = None,
        granted: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        named: Collection[str] = (),
        labels: Mapping[str, str] | None = None,
        priority: int | None = None,
        thread_id: str | None = None,
        multitask_strategy: MultitaskStrategy | None = None,
        idempotency_key: str | None = None,
    ) -> Run:
        """Make a run of a task. Its inputs, model file and secrets are taken from this machine and sent along; see `prepare`.

        A request that is sent again makes no second run. With an `idempotency_key` of your own neither does one of another
        process, for a day; it must be of the same order, with the same uploads (see `submit`).
        """
        order = await self.prepare(task, base_dir=base_dir, granted=granted, environ=environ, named=named)
        order = replace(
            order, labels=labels or {}, priority=priority, thread_id=thread_id, multitask_strategy=multitask_strategy
        )
        return await self.submit(order, idempotency_key=idempotency_key)

    async def prepare(
        self,
        task: RunSpec | Mapping[str, Any],
        *,
        base_dir: Path | None = None,
        granted: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        named: Collection[str] = (),
    ) -> Order:
        """An order for a task, its files uploaded: for `submit`, or for any number of lines of a batch.

        `base_dir` (default: the current folder) is where the task's paths begin; they may not leave it, but for those of the
        parts in `named` (`inputs`, `model`). `granted` are the variables of `environ` (default: this process's) that the task
        may take as secrets; the key of its model is taken without being asked for. Raises `BadInput` for what is missing.
        """
        work = self._caller.transport.work
        packing = packed(task, base_dir=base_dir, granted=granted, environ=environ, named=named)
        parcel = await work(packing.__enter__)
        try:
            uploads = {name: (await AsyncUploads(self._caller).create(path)).id for name, path in parcel.files.items()}
        finally:
            await work(lambda: _leave(packing))
        return Order(parcel.task, uploads, parcel.secrets)

    async def submit(self, order: Order, *, idempotency_key: str | None = None) -> Run:
        """Make a run of an order whose files are uploads. With the same key and the same order it is the same run."""
        return await self._caller.post(Run, "runs", body=order.body(), key=idempotency_key or new_key())

    async def list(
        self,
        *,
        status: RunStatus | Sequence[RunStatus] | None = None,
        labels: Mapping[str, str] | None = None,
        thread_id: str | None = None,
        batch_id: str | None = None,
        parent_id: str | None = None,
        with_children: bool = False,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = DEFAULT_LIMIT,
        cursor: str | None = None,
    ) -> Page[Run]:
        """One page of the runs that meet every condition, the newest first. `cursor` is `next_cursor` of the page before.

        Those that are children of others are only in it when it is of a parent's, or `with_children`.
        """
        params = {
            "status": [one.value for one in ([status] if isinstance(status, RunStatus) else status or ())],
            "label": [f"{key}={value}" for key, value in (labels or {}).items()],
            "thread_id": thread_id,
            "batch_id": batch_id,
            "parent_id": parent_id,
            "with_children": "true" if with_children else None,
            "created_after": created_after,
            "created_before": created_before,
            "limit": limit,
            "cursor": cursor,
        }
        return await self._caller.get(Page[Run], "runs", params=params)

    async def iterate(
        self,
        *,
        status: RunStatus | Sequence[RunStatus] | None = None,
        labels: Mapping[str, str] | None = None,
        thread_id: str | None = None,
        batch_id: str | None = None,
        parent_id: str | None = None,
        with_children: bool = False,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        page_size: int = DEFAULT_LIMIT,
    ) -> AsyncIterator[Run]:
        """Every run that `list` would find, page after page."""
        page_at = partial(
            self.list,
            status=status,
            labels=labels,
            thread_id=thread_id,
            batch_id=batch_id,
            parent_id=parent_id,
            with_children=with_children,
            created_after=created_after,
            created_before=created_before,
            limit=page_size,
        )
        async for run in every(lambda cursor: page_at(cursor=cursor)):
            yield run

    async def get(self, run_id: str) -> Run:
        """The run as it is now."""
        return await self._caller.get(Run, "runs", run_id)

    async def children(self, run_id: str) -> Sequence[Run]:
        """All runs below a run, at any depth: those nearest to it first, and then in the order of their tasks."""
        return (await self._caller.get(Listing[Run], "runs", run_id, "children")).items

    async def cancel(self, run_id: str) -> Run:
        """Ask for a run to stop; one that has ended stays as it is."""
        return await self._caller.post(Run, "runs", run_id, "cancel", repeatable=True)

    async def retry(self, run_id: str, *, secrets: Mapping[str, str] | None = None, idempotency_key: str | None = None) -> Run:
        """A new run of the same task and inputs. `secrets` are values by variable, when the task needs any.

        A child cannot be had again by itself.
        """
        body = {"secrets": dict(secrets)} if secrets else {}
        return await self._caller.post(Run, "runs", run_id, "retry", body=body, key=idempotency_key or new_key())

    async def decide(self, run_id: str, decisions: Sequence[Mapping[str, Any]]) -> Run:
        """Answer an interrupted run, question by question: `{"type": "approve" | "edit" | "reject" | "respond", ...}`."""
        return await self._caller.post(Run, "runs", run_id, "decide", body={"decisions": [dict(one) for one in decisions]})

    async def events(self, run_id: str, *, after: int = 0, wait: float = 0.0, limit: int = PAGE) -> Events:
        """At most `limit` events after that one; when there are none, those that come within `wait` seconds (at most 60)."""
        return await page(self._caller, run_id, after, wait=wait, limit=limit)

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """What happens after that event until the run has ended, as it does; each once, also when connections break."""
        async for event in follow(self._caller, run_id, after):
            yield event

    async def join(self, run_id: str, *, timeout: float = 60.0) -> Run:
        """The run when it has ended, or as it is after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            wait = min(max(deadline - time.monotonic(), 0.0), MAX_JOIN)
            params = {"timeout": f"{wait:.3f}"}
            run = await self._caller.get(Run, "runs", run_id, "join", params=params, patience=wait + JOIN_MARGIN)
            if run.status.terminal or time.monotonic() >= deadline:
                return run
            await self._caller.transport.sleep(JOIN_PAUSE)

    async def attempts(self, run_id: str) -> Sequence[Attempt]:
        """The attempts at a run so far, in order."""
        return (await self._caller.get(Listing[Attempt], "runs", run_id, "attempts")).items

    async def usage(self, run_id: str) -> Sequence[Usage]:
        """What the attempts at a run that have ended used of models."""
        return (await self._caller.get(Listing[Usage], "runs", run_id, "usage")).items

    async def spent(self, run_id: str) -> Spent:
        """What a run and all below it have used up to now."""
        return (await self._caller.get(SpentWithChildren, "runs", run_id, "usage")).with_children

    async def log(self, run_id: str) -> str:
        """What happened in a run, as dated lines."""
        return (await self._caller.ask(Ask("GET", at("runs", run_id, "log"), repeatable=True))).text

    async def artifacts(self, run_id: str) -> Sequence[Artifact]:
        """What a run has left so far, by name."""
        return (await self._caller.get(Listing[Artifact], "runs", run_id, "artifacts")).items

    async def download(self, run_id: str, name: str, out: BinaryIO) -> Artifact:
        """Write the content of an artifact to a binary file; all of it has been checked when this returns."""
        for artifact in await self.artifacts(run_id):
            if artifact.name == name:
                await fetch(self._caller, run_id, artifact, out)
                return artifact
        raise NotFound(f"run {run_id} has no artifact '{name}'; `fanfold runs show {run_id}` lists them")

    async def prune(self, *, older_than: float | None = None, keep: int | None = None, dry_run: bool = False) -> Sequence[str]:
        """Remove runs that ended more than `older_than` seconds ago and are not among the last `keep`; their ids."""
        body = {"older_than": older_than, "keep": keep, "dry_run": dry_run}
        return (await self._caller.post(Pruned, "runs", "prune", body=body, repeatable=True)).items


class Runs(Blocking[AsyncRuns]):
    """See `AsyncRuns`."""

    create = blocking(AsyncRuns.create)
    prepare = blocking(AsyncRuns.prepare)
    submit = blocking(AsyncRuns.submit)
    list = blocking(AsyncRuns.list)
    iterate = iterating(AsyncRuns.iterate)
    get = blocking(AsyncRuns.get)
    children = blocking(AsyncRuns.children)
    cancel = blocking(AsyncRuns.cancel)
    retry = blocking(AsyncRuns.retry)
    decide = blocking(AsyncRuns.decide)
    events = blocking(AsyncRuns.events)
    follow = iterating(AsyncRuns.follow)
    join = blocking(AsyncRuns.join)
    attempts = blocking(AsyncRuns.attempts)
    usage = blocking(AsyncRuns.usage)
    spent = blocking(AsyncRuns.spent)
    log = blocking(AsyncRuns.log)
    artifacts = blocking(AsyncRuns.artifacts)
    download = blocking(AsyncRuns.download)
    prune = blocking(AsyncRuns.prune)


def _leave(packing: AbstractContextManager[Parcel]) -> None:
    packing.__exit__(None, None, None)
