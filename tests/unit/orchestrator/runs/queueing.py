"""A queue to play with: submit, look at what is sent, let runs begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import delete, update

from orchestrator.policy import Policy
from orchestrator.queue import QUEUE
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.dispatching import Dispatching
from orchestrator.runs.engine import WRITE
from orchestrator.runs.models import Lease, NewRun, RunStatus, WorkerInfo
from orchestrator.runs.store import Store
from orchestrator.runs.tenants import ensure_tenant


class Scene:
    """One installation. Runs are called by their ids, which a test makes up."""

    def __init__(self, store: Store, clock, policy: Policy | None = None) -> None:
        self.store, self.clock = store, clock
        self.queue = Dispatching(store._engine, policy or Policy(), clock)
        self.sent: list[str] = []
        """Every run that was sent, in that order."""

    def with_policy(self, policy: Policy) -> Scene:
        """The same installation, as another process sees it that has this policy."""
        return Scene(self.store, self.clock, policy)

    def clear(self) -> None:
        """Forget all runs and workers, and who was served."""
        self.sent.clear()
        with self.store._engine.connect().execution_options(**WRITE) as connection, connection.begin():
            for statement in (delete(t.runs), delete(t.workers), update(s.tenants).values(served=0.0)):
                connection.execute(statement)

    def worker(self, concurrency: int, name: str = "host:1:abc", queues: Sequence[str] = (QUEUE,)) -> None:
        """Have a worker that is alive now; it executes so many at once, and gets one more in advance."""
        moment = self.clock()
        self.store.worker_alive(WorkerInfo(name, "host", 1, concurrency, moment, moment, list(queues)))

    def tenant(self, name: str, **limits: float) -> None:
        """Have a tenant with these limits."""
        with self.store._engine.connect().execution_options(**WRITE) as connection, connection.begin():
            ensure_tenant(connection, name, self.clock())
            if limits:
                connection.execute(update(s.tenants).where(s.tenants.c.id == name).values(**limits))

    def submit(
        self,
        run_id: str,
        tenant: str = "default",
        *,
        priority: int = 0,
        provider: str = "local",
        labels: Mapping[str, str] | None = None,
        thread_id: str | None = None,
        ready_at: datetime | None = None,
    ) -> bool:
        """Whether it was sent at once."""
        spec = {"agent": {"prompt": "x"}, "sandbox": {"provider": provider}}
        new = NewRun(
            run_id, "name", spec, tenant, labels or {}, priority, thread_id=thread_id, ready_at=ready_at
        )
        _, added = self.queue.add(new)
        sends = [send.run_id for send in added.sends]
        self.sent += sends
        assert added.waiting == (run_id not in sends)
        return run_id in sends

    def look(self, limit: int = 100) -> list[str]:
        """What a decision sends."""
        sends = [send.run_id for send in self.queue.dispatch(limit)]
        self.sent += sends
        return sends

    def begin(self, run_id: str) -> Lease:
        """Let a worker take a run."""
        lease = self.store.claim(run_id, "w")
        assert lease is not None
        return lease

    def end(self, run_id: str) -> None:
        """Let a run that was sent begin, and end at once."""
        self.store.finish(self.begin(run_id), RunStatus.SUCCESS)
