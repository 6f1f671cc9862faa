"""What the service stands on: the record, the queue and the artifacts of an installation, opened when they are needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from orchestrator.broker import Broker
from orchestrator.errors import InfrastructureError
from orchestrator.queue import make_app, send_execute_run
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RunFolder
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from orchestrator.settings import Settings

if TYPE_CHECKING:
    from celery import Celery
    from sqlalchemy import Engine


class Installation:
    """Safe to use from many threads. Close it when done."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.broker = Broker(settings)

    def close(self) -> None:
        """Let go of the connections to the record and the queue."""
        if "engine" in self.__dict__:
            self.engine.dispose()
        if "app" in self.__dict__:
            self.app.close()

    @cached_property
    def engine(self) -> Engine:
        """The database, its schema up to date."""
        return open_database(self.settings.database, self.settings.home / "database.lock")

    @cached_property
    def store(self) -> Store:
        """The record of runs."""
        return Store(self.engine)

    @cached_property
    def artifacts(self) -> ArtifactStore:
        """The content of what runs left."""
        return ArtifactStore(self.settings.artifacts, self.settings.spool_dir)

    @cached_property
    def app(self) -> Celery:
        """The queue."""
        return make_app(self.broker.url)

    def folder(self, run_id: str) -> RunFolder:
        """The folder of a run."""
        return RunFolder.of(self.settings.runs_dir, run_id)

    def enqueue(self, run_id: str) -> None:
        """Nudge a worker to execute a run. Raises `InfrastructureError` when the broker is not there."""
        self.broker.ensure()
        try:
            send_execute_run(self.app, run_id)
        except InfrastructureError:
            if not self.broker.embedded:
                raise
            self.broker.ensure(surely=True)  # a worker that left has stopped it in between
            send_execute_run(self.app, run_id)
