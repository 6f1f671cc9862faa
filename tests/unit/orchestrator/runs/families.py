"""Runs with children: begin fan-outs, let children be granted, and look at what is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.policy import Policy
from orchestrator.runs.family import Family
from orchestrator.runs.granting import Granting
from orchestrator.runs.models import Lease, NewRun, Run, RunStatus
from orchestrator.runs.store import Store

AGENT: dict[str, Any] = {"agent": {"prompt": "x"}}
KEY = "1:a"
MAX_DEPTH = 3
MAX_RUNS = 100


class Kin:
    """One record with families in it. Runs are called by their ids, which a test makes up; the worker is `w`."""

    def __init__(self, store: Store, clock, policy: Policy | None = None) -> None:
        self.store, self.clock = store, clock
        self.family = Family(store.engine, clock)
        self.granting = Granting(store.engine, policy or Policy(), clock)

    def top(self, run_id: str = "run-p", **more: Any) -> Lease:
        """Submit a run that may have children, and let the worker take it."""
        self.store.add(NewRun(run_id, "name", AGENT, **more))
        lease = self.store.claim(run_id, "w")
        assert lease is not None
        return lease

    def begin(
        self, lease: Lease, *names: str, key: str = KEY, spec: Mapping[str, Any] = AGENT, max_runs: int = MAX_RUNS
    ) -> list[str]:
        """Begin a fan-out with children of these names; their ids."""
        new = [NewRun(f"{lease.run_id}-{name}", name, dict(spec)) for name in names]
        return [run.id for run in self.family.begin(lease, key, new, max_depth=MAX_DEPTH, max_runs=max_runs)]

    def grant(self, run_id: str, worker: str = "w") -> Lease:
        """Let a child begin."""
        lease = self.granting.grant(run_id, worker)
        assert lease is not None
        return lease

    def end(self, run_id: str) -> None:
        """Let a child begin, and end at once."""
        self.store.finish(self.grant(run_id), RunStatus.SUCCESS)

    def status(self, run_id: str) -> RunStatus:
        """How far a run is."""
        return self.run(run_id).status

    def run(self, run_id: str) -> Run:
        """A run as it is now."""
        return self.store.get(run_id)
