"""What the service stands on: the record, the queue and the artifacts of an installation, opened when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from orchestrator.broker import Broker
from orchestrator.errors import InfrastructureError
from orchestrator.policy import Policy, load_policy
from orchestrator.queue import make_app, send_execute_run
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.batches import NewBatch
from orchestrator.runs.dispatching import AT_SUBMIT, Added, Dispatching
from orchestrator.runs.family import Family
from orchestrator.runs.files import RunFolder
from orchestrator.runs.frozen import FrozenFiles
from orchestrator.runs.idempotency import Idempotency
from orchestrator.runs.models import NewRun
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.settings import Settings
from orchestrator.telemetry.collector import RecordCollector
from orchestrator.telemetry.metrics import Metrics
from orchestrator.vault import Vault
from orchestrator.wake import WAITS, Bell

if TYPE_CHECKING:
    from celery import Celery
    from sqlalchemy import Engine


class Installation:
    """Safe to use from many threads. Close it when done."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.broker = Broker(settings)
        self._has_sent = False

    def close(self) -> None:
        """Let go of the connections to the record and the queue."""
        if "engine" in self.__dict__:
            self.engine.dispose()
        if "app" in self.__dict__:
            self.app.close()
        if "bell" in self.__dict__:
            self.bell.close()

    @cached_property
    def engine(self) -> Engine:
        """The database, its schema up to date."""
        return open_database(self.settings.database, self.settings.home / "database.lock")

    @cached_property
    def store(self) -> Store:
        """The record of runs."""
        return Store(self.engine)

    @cached_property
    def family(self) -> Family:
        """The children of runs."""
        return Family(self.engine)

    @cached_property
    def artifacts(self) -> ArtifactStore:
        """The content of what runs left."""
        return ArtifactStore(self.settings.artifacts, self.settings.spool_dir)

    @cached_property
    def app(self) -> Celery:
        """The queue."""
        return make_app(self.broker.url)

    @cached_property
    def frozen(self) -> FrozenFiles:
        """What was frozen for runs, where several machines execute them."""
        return FrozenFiles(self.store, self.artifacts, shared=self.settings.artifacts_url is not None)

    @cached_property
    def idempotency(self) -> Idempotency:
        """The keys of requests that are done once."""
        return Idempotency(self.engine, self.settings.home / "requests")

    @cached_property
    def vault(self) -> Vault:
        """What seals secrets."""
        return Vault(self.settings)

    @cached_property
    def metrics(self) -> Metrics:
        """What this process counts, and what the record does."""
        found = Metrics()
        found.add(RecordCollector(lambda: self.engine, lambda: self.policy))
        return found

    def folder(self, run_id: str) -> RunFolder:
        """The folder of a run."""
        return RunFolder.of(self.settings.runs_dir, run_id, self.vault)

    @cached_property
    def policy(self) -> Policy:
        """What the operator rules. Raises `BadInput` when it cannot be read."""
        return load_policy(self.settings.policy)

    @cached_property
    def dispatching(self) -> Dispatching:
        """The queue in the record: new runs go in there."""
        return Dispatching(self.engine, self.policy)

    @cached_property
    def bell(self) -> Bell:
        """What calls the controllers."""
        return Bell(self.broker.url, WAITS)

    def send(self, added: Added) -> None:
        """Send what is to be sent of new runs, and call a controller for those that wait.

        Raises `InfrastructureError` when the broker is not there.
        """
        if not self._has_sent:
            self.broker.ensure()
        try:
            self._send(added)
            self._has_sent = True
        except InfrastructureError:
            if not self.broker.embedded:
                raise
            self.broker.ensure(surely=True)  # a worker that left has stopped it in between
            self._send(added)

    def submit_many(self, new: Sequence[NewRun], batch: NewBatch | None = None) -> None:
        """Record new runs, and their batch, all or none of them, and begin those whose turn it is.

        Raises what `Dispatching.add_many` does. A broker that is not there is no error: the runs wait for it in the record.
        """
        added = self.dispatching.add_many(new, batch)
        with suppress(InfrastructureError):
            self.send(added)

    def enqueue(self, run_id: str) -> None:
        """Have a run go on that waits in the queue (again), when it is its turn: at once, if that is now.

        Raises `InfrastructureError` when the broker is not there.
        """
        sends = self.dispatching.dispatch(AT_SUBMIT)
        self.send(Added(tuple(sends), waiting=run_id not in {send.run_id for send in sends}))

    def nudge(self, run_id: str) -> None:
        """Call a worker for what a run that has ended may have left. When there is no broker, the reaper finds it."""
        with suppress(InfrastructureError):
            self.send(Added(tuple(self.dispatching.queue_of([run_id]))))

    def _send(self, added: Added) -> None:
        for send in added.sends:
            send_execute_run(self.app, send.run_id, send.queue)
        if added.waiting:
            self.bell.ring()
