"""The one door: everything that a command line or an API may do with runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from orchestrator.broker import Broker
from orchestrator.errors import BadInput, InfrastructureError, RunNotFound, WorkerUnavailable
from orchestrator.freeze import freeze_run
from orchestrator.locks import file_lock
from orchestrator.queue import make_app, send_execute_run
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import Artifact, Attempt, Event, ModelUsage, Run, RunError, RunStatus, WorkerInfo
from orchestrator.runs.retention import discard
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store, new_run_id, now
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec

if TYPE_CHECKING:
    from celery import Celery

FOLLOW_POLL = 0.03
"""Seconds between two looks for new events."""
LIVENESS_POLL = 2.0
"""Seconds without events between two looks whether the run still has a worker."""
WORKER_GRACE = 20.0
"""Seconds without a heartbeat after which a run's worker counts as dead to those who follow it."""
WORKER_START_TIMEOUT = 30.0
"""Seconds for a worker that was started on demand to say that it is alive."""
WORKER_POLL = 0.05
"""Seconds between two looks for it."""
MAX_LOG_TAIL = 2000
"""Bytes of the worker's log that an error shows."""

Named = Literal["inputs", "model"]


class Service:
    """Submits runs and tells about them. Close it when done, or use it in a `with` statement."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._broker = Broker(settings)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections to the record and the queue."""
        if "_store" in self.__dict__:
            self._store.close()
        if "_app" in self.__dict__:
            self._app.close()

    @cached_property
    def _store(self) -> Store:
        return Store(open_database(self._settings.database, self._settings.home / "database.lock"))

    @cached_property
    def _artifacts(self) -> ArtifactStore:
        return ArtifactStore(self._settings.artifacts, self._settings.spool_dir)

    @cached_property
    def _app(self) -> Celery:
        return make_app(self._broker.url)

    # Runs

    def submit(
        self,
        spec: RunSpec,
        *,
        base_dir: Path,
        granted: Collection[str] = (),
        environ: Mapping[str, str] | None = None,
        named: Collection[Named] = (),
    ) -> Run:
        """Freeze what the run needs, record the run, and put it on the queue.

        `base_dir` is the task file's folder: paths in the spec are relative to it and may not leave it, but for the parts in
        `named`, which the person who submits has named (on a command line) rather than the task's author. `granted` are the
        variables of `environ` (default: this process's) that the task may take as secrets, beside `FANFOLD_ALLOWED_SECRETS`.
        Call `ensure_worker` afterwards to have the run executed by this machine.

        Raises `BadInput`, and then nothing was recorded; or `InfrastructureError`.
        """
        run_id = new_run_id()
        folder = RunFolder.of(self._settings.runs_dir, run_id)
        try:
            folder.create()
            freeze_run(
                spec,
                folder,
                base_dir=base_dir,
                granted=self._settings.allowed_secrets | frozenset(granted),
                environ=os.environ if environ is None else environ,
                named=frozenset(named),
            )
            run = self._store.add(run_id, spec.name, spec.model_dump(mode="json"))
        except BaseException:
            folder.remove()
            raise
        try:
            self._enqueue(run_id)
        except InfrastructureError as exc:
            self._store.abandon(run_id, RunError("infrastructure", str(exc)))
            folder.forget_secrets()
            raise
        return run

    def _enqueue(self, run_id: str) -> None:
        self._broker.ensure()
        try:
            send_execute_run(self._app, run_id)
        except InfrastructureError:
            if not self._broker.embedded:
                raise
            self._broker.ensure(surely=True)  # a worker that left has stopped it in between
            send_execute_run(self._app, run_id)

    def get(self, run_id: str) -> Run:
        """The run with this id, or whose id begins so (`run-` may be left out). Raises `RunNotFound`."""
        prefix = run_id if run_id.startswith("run-") else f"run-{run_id}"
        found = self._store.find(prefix)
        if len(found) > 1:
            raise RunNotFound(f"more than one run begins with '{run_id}': give more of its id")
        if not found:
            raise RunNotFound(f"there is no run '{run_id}'; `fanfold runs ls` lists them")
        return found[0]

    def cancel(self, run_id: str) -> Run:
        """Ask for a run to stop; it is terminal soon after (see `follow`). One that has ended stays as it is."""
        run = self._store.request_cancel(self.get(run_id).id)
        if run.status.terminal:
            RunFolder.of(self._settings.runs_dir, run.id).forget_secrets()
        return run

    def events(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """What has happened in a run so far, in order, beginning after the event numbered `after`."""
        run = self.get(run_id)
        while page := self._store.events(run.id, after):
            yield from page
            after = page[-1].seq

    def follow(self, run_id: str, after: int = 0) -> Iterator[Event]:
        """What has happened and what happens, as it does, until the run has ended.

        Raises `InfrastructureError` when the run waits for a worker that has died, or when no worker is alive.
        """
        run = self.get(run_id)
        ended, look = run.status.terminal, time.monotonic() + LIVENESS_POLL
        while True:
            page = self._store.events(run.id, after)
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
        run = self._store.get(run_id)
        if run.status is RunStatus.PENDING and not self._store.workers(WORKER_GRACE):
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
        return self._store.attempts(self.get(run_id).id)

    def usage(self, run_id: str) -> Sequence[ModelUsage]:
        """What the attempts at a run that have ended used of models, by attempt, agent and model."""
        return self._store.usage(self.get(run_id).id)

    # Artifacts

    def artifacts(self, run_id: str) -> list[Artifact]:
        """What a run has left so far, by name."""
        return self._store.artifacts(self.get(run_id).id)

    def open_artifact(self, run_id: str, name: str) -> BinaryIO:
        """The content of an artifact as a file to be closed; it is fetched as it is read, and can be sought.

        The read that reaches its end raises `InfrastructureError` when all of it was read and it is not what the run left.
        Raises `BadInput` when there is no artifact of this name, `InfrastructureError` when its content is not to be had.
        """
        run = self.get(run_id)
        for artifact in self._store.artifacts(run.id):
            if artifact.name == name:
                path = self._run_folder(run.id).earlier_artifact(artifact)
                return path.open("rb") if path else self._artifacts.open(artifact.sha256, verify=True)
        raise BadInput(f"run {run.id} has no artifact '{name}'; `fanfold runs show {run.id}` lists them")

    def artifact_place(self, artifact: Artifact) -> Path | str:
        """Where the content of an artifact is: a path of this machine, or an address."""
        return self._run_folder(artifact.run_id).earlier_artifact(artifact) or self._artifacts.place(artifact.sha256)

    def _run_folder(self, run_id: str) -> RunFolder:
        return RunFolder.of(self._settings.runs_dir, run_id)

    # Retention

    def prune(self, *, older_than: float | None = None, keep: int | None = None, dry_run: bool = False) -> Sequence[str]:
        """Remove runs that ended more than `older_than` seconds ago and are not among the last `keep` that ended; their ids.

        With them go their events, attempts, artifacts and folders. With `dry_run` nothing is removed. Raises `BadInput` when
        neither bound is given.
        """
        if older_than is None and keep is None:
            raise BadInput("say which runs are to be removed: those older than some time, all but the last ones, or both")
        chosen = self._store.prunable(older_than=older_than, keep=keep)
        if not dry_run:
            self._artifacts.check(self._store.installation())
            discard(self._store, chosen, runs_dir=self._settings.runs_dir, artifacts=self._artifacts)
        return chosen

    # Workers

    def workers(self) -> list[WorkerInfo]:
        """The workers that are alive, the oldest first."""
        return self._store.workers()

    def ensure_worker(self) -> WorkerInfo:
        """A worker that is alive; when there is none, one is started on this machine, and leaves when it has been idle.

        Two callers at once start one. Raises `WorkerUnavailable` when it does not come up.
        """
        if alive := self.workers():
            return alive[0]
        lock = self._settings.home / "worker.lock"
        with file_lock(lock, timeout=WORKER_START_TIMEOUT * 2, why="a worker is being started"):
            if alive := self.workers():
                return alive[0]
            return self._start_worker()

    def _start_worker(self) -> WorkerInfo:
        self._broker.ensure()
        log = self._settings.worker_log
        idle = str(self._settings.worker_idle_exit)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "orchestrator.worker", "--idle-exit", idle],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._settings.home,
                start_new_session=True,  # the terminal's Ctrl-C is not for it
            )
        deadline = time.monotonic() + WORKER_START_TIMEOUT
        while not (alive := self.workers()):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise WorkerUnavailable(f"no worker came up; the end of {log} says:\n{_tail(log)}")
            time.sleep(WORKER_POLL)
        process.returncode = 0  # it is detached on purpose: nobody waits for it
        return alive[0]

    def list(self, status: RunStatus | None = None, limit: int = 50) -> Sequence[Run]:
        """The newest runs first, of this status or of all."""
        return self._store.recent(status, limit)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - MAX_LOG_TAIL))
        return file.read(MAX_LOG_TAIL).decode(errors="replace").strip()
