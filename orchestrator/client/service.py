"""The service of the command line behind an API: the methods of `Service` that it uses, over a `Client`."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.client import models
from orchestrator.client.caller import at
from orchestrator.client.client import Client
from orchestrator.client.rooms.sandboxes import DEFAULT_EXEC_TIMEOUT
from orchestrator.client.rooms.schedules import Schedules
from orchestrator.errors import BadInput
from orchestrator.runs.models import Artifact, Attempt, Event, ModelUsage, Run, RunError, RunStatus
from orchestrator.runs.sandboxes import Executed, SandboxInfo, SandboxListing
from orchestrator.runs.spent import Spent
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec

MAX_PAGE = 1000
"""Runs that one question asks for."""
_OTHERWISE = frozenset({"error", "exit_code", "task"})
"""Fields of an answer's run that the record's has in another form."""


class RemoteService:
    """Answers with the record's types, as `Service` does. Nothing of it needs a home on this machine."""

    def __init__(self, settings: Settings) -> None:
        """Raises `BadInput` when the settings name no API, or one whose address is none."""
        if settings.url is None:
            raise BadInput("no API is named: set FANFOLD_URL to its address")
        self._settings = settings
        self.client = Client(settings.url, settings.api_key.get_secret_value() if settings.api_key else None)

    def __enter__(self) -> RemoteService:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self.client.close()

    # Runs

    def submit(
        self,
        spec: RunSpec,
        *,
        base_dir: Path,
        granted: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        named: Collection[str] = (),
    ) -> Run:
        """See `Service.submit`. What the run needs is taken from this machine; `FANFOLD_ALLOWED_SECRETS` is this one's too."""
        allowed = self._settings.allowed_secrets | frozenset(granted)
        return _run(self.client.runs.create(spec, base_dir=base_dir, granted=allowed, environ=environ, named=named))

    def get(self, run_id: str) -> Run:
        """See `Service.get`."""
        return _run(self.client.runs.get(run_id))

    def children(self, run_id: str) -> Sequence[Run]:
        """See `Service.children`."""
        return [_run(one) for one in self.client.runs.children(run_id)]

    def cancel(self, run_id: str) -> Run:
        """See `Service.cancel`."""
        return _run(self.client.runs.cancel(run_id))

    def decide(self, run_id: str, decisions: Sequence[Mapping[str, Any]]) -> Run:
        """See `Service.decide`."""
        return _run(self.client.runs.decide(run_id, decisions))

    def retry(self, run_id: str, *, secrets: Mapping[str, str]) -> Run:
        """See `Service.retry`."""
        return _run(self.client.runs.retry(run_id, secrets=secrets))

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """See `Service.events`."""
        while found := self.client.runs.events(run_id, after=after).items:
            for event in found:
                yield _event(run_id, event)
                after = event.seq

    def follow(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """See `Service.follow`. A run that waits for a worker is waited for: workers are its operator's."""
        for event in self.client.runs.follow(run_id, after=after):
            yield _event(run_id, event)

    def attempts(self, run_id: str) -> Sequence[Attempt]:
        """See `Service.attempts`."""
        return [_attempt(run_id, one) for one in self.client.runs.attempts(run_id)]

    def usage(self, run_id: str) -> Sequence[ModelUsage]:
        """See `Service.usage`."""
        return [ModelUsage(**one.model_dump()) for one in self.client.runs.usage(run_id)]

    def spent(self, run_id: str) -> Spent:
        """See `Service.spent`."""
        return Spent(**self.client.runs.spent(run_id).model_dump())

    def prune(self, *, older_than: float | None = None, keep: int | None = None, dry_run: bool = False) -> Sequence[str]:
        """See `Service.prune`."""
        return self.client.runs.prune(older_than=older_than, keep=keep, dry_run=dry_run)

    # Artifacts

    def artifacts(self, run_id: str) -> list[Artifact]:
        """See `Service.artifacts`."""
        return [Artifact(run_id=run_id, **one.model_dump()) for one in self.client.runs.artifacts(run_id)]

    def open_artifact(self, run_id: str, name: str) -> BinaryIO:
        """See `Service.open_artifact`; all of it has been fetched and checked."""
        file: BinaryIO = tempfile.TemporaryFile(prefix="fanfold-artifact-")  # noqa: SIM115  # the caller closes it
        try:
            self.client.runs.download(run_id, name, file)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def artifact_place(self, artifact: Artifact) -> Path | str:
        """The address of an artifact's content."""
        return self.client.url + at("runs", artifact.run_id, "artifacts", *artifact.name.split("/"))

    # Schedules

    @property
    def schedules(self) -> Schedules:
        """See `Service.schedules`."""
        return self.client.schedules

    # Others

    @property
    def sandboxes(self) -> RemoteSandboxes:
        """The sandboxes of runs."""
        return RemoteSandboxes(self.client)

    def ensure_worker(self) -> None:
        """Workers are the operator's: nothing is started here."""

    def list(self, status: RunStatus | None = None, limit: int = 50, *, with_children: bool = False) -> Sequence[Run]:
        """See `Service.list`."""
        found = self.client.runs.iterate(status=status, with_children=with_children, page_size=min(limit, MAX_PAGE))
        return [_run(one) for one in islice(found, limit)]


class RemoteSandboxes:
    """The methods of `SandboxRoom` that the command line uses."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def destroy(self, sandbox_id: str, *, force: bool = False) -> None:
        """See `SandboxRoom.destroy`."""
        self._client.sandboxes.destroy(sandbox_id, force=force)

    def keep(self, sandbox_id: str, seconds: float) -> SandboxInfo:
        """See `SandboxRoom.keep`."""
        return SandboxInfo(**self._client.sandboxes.keep(sandbox_id, seconds).model_dump())

    def exec(self, sandbox_id: str, command: str, *, timeout: float = DEFAULT_EXEC_TIMEOUT) -> Executed:
        """See `SandboxRoom.exec`."""
        return Executed(**self._client.sandboxes.exec(sandbox_id, command, timeout=timeout).model_dump())

    def list(self) -> SandboxListing:
        """See `SandboxRoom.list`."""
        found = self._client.sandboxes.list()
        return SandboxListing(tuple(SandboxInfo(**one.model_dump()) for one in found.items), found.unreachable)


def _run(run: models.Run) -> Run:
    same = {name: getattr(run, name) for name in models.Run.model_fields if name not in _OTHERWISE}
    return Run(**same, error=_error(run.error), spec=run.task)


def _error(problem: models.Problem | None) -> RunError | None:
    return RunError(problem.kind, problem.message) if problem else None


def _event(run_id: str, event: models.Event) -> Event:
    return Event(run_id, event.seq, event.type, event.at, event.data)


def _attempt(run_id: str, one: models.Attempt) -> Attempt:
    return Attempt(
        run_id=run_id,
        number=one.attempt,
        worker=one.worker,
        status=one.status,
        started_at=one.started_at,
        finished_at=one.finished_at,
        error=_error(one.error),
        provider=one.provider,
        sandbox_id=one.sandbox,
        sandbox_seconds=one.sandbox_seconds,
    )
