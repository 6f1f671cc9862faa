"""Any sequence of submissions, decisions and ends: within the caps, fair, nothing lost, nothing sent twice."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from orchestrator.policy import Policy
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from tests.unit.orchestrator.runs.lives import Stopwatch, live
from tests.unit.orchestrator.runs.queueing import Scene

EXAMPLES = {"sqlite": 30, "postgresql": 8}
STEPS = 40
POLICY = Policy.model_validate({"caps": {"provider": {"docker": 1}, "label": {"team=ml": 2}}})
TENANT_CAP = 2
KINDS = {
    "a": {},
    "b": {},
    "capped": {},
    "docker": {"provider": "docker"},
    "ml": {"labels": {"team": "ml"}},
    "mixed": {"provider": "docker", "labels": {"team": "ml"}},
}
"""Tenants, and what their runs are like. Nothing ever holds those of the first two but a lack of workers."""
UNFAIR = 2
"""Runs that another tenant of the same weight may be ahead while one waits."""


class QueueLife(RuleBasedStateMachine):
    """One installation, one worker, several tenants."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene
        scene.clear()
        self.kinds: dict[str, str] = {}
        self.waiting: set[str] = set()
        self.at_work: list[str] = []
        self.slots = 0
        self.ahead: dict[str, Counter[str]] = {}
        """For each tenant that nothing holds and that waits: how often each other one was served meanwhile."""
        self.seen = 0

    @rule(tenant=st.sampled_from(list(KINDS)), priority=st.sampled_from([0, 0, 5, -5]), count=st.integers(1, 4))
    def submit(self, tenant: str, priority: int, count: int) -> None:
        for _ in range(count):
            run_id = f"run-{uuid.uuid4().hex[:12]}"
            self.kinds[run_id] = tenant
            self.waiting.add(run_id)
            if tenant in ("a", "b"):
                self.ahead.setdefault(tenant, Counter())
            self.scene.clock.moment += timedelta(milliseconds=1)
            self.scene.submit(run_id, tenant, priority=priority, **KINDS[tenant])
            self.note()

    @rule(limit=st.sampled_from([1, 3, 100]))
    def look(self, limit: int) -> None:
        self.scene.look(limit)
        self.note()

    @rule(concurrency=st.integers(1, 6))
    def have_a_worker(self, concurrency: int) -> None:
        self.scene.worker(concurrency)
        self.slots = concurrency + 1

    @precondition(lambda self: self.at_work)
    @rule(number=st.integers(0, 99))
    def end(self, number: int) -> None:
        self.scene.end(self.at_work.pop(number % len(self.at_work)))

    @precondition(lambda self: self.waiting)
    @rule(number=st.integers(0, 99))
    def cancel(self, number: int) -> None:
        run_id = sorted(self.waiting)[number % len(self.waiting)]
        self.scene.store.request_cancel(run_id)
        self.waiting.discard(run_id)
        self.forget_idle()

    def note(self) -> None:
        """What was sent since the last time."""
        new, self.seen = self.scene.sent[self.seen :], len(self.scene.sent)
        for run_id in new:
            assert run_id in self.waiting, "it was sent twice, or after its end"
            self.waiting.discard(run_id)
            self.at_work.append(run_id)
            for tenant in self.ahead:
                self.ahead[tenant][self.kinds[run_id]] += 1
            if self.kinds[run_id] in self.ahead:
                self.ahead[self.kinds[run_id]] = Counter()
            self.forget_idle()
        if new:
            assert len(self.at_work) <= self.slots
        for tenant, others in self.ahead.items():
            assert all(count <= UNFAIR for other, count in others.items() if other != tenant), (tenant, others)

    def forget_idle(self) -> None:
        still = {self.kinds[run_id] for run_id in self.waiting}
        self.ahead = {tenant: others for tenant, others in self.ahead.items() if tenant in still}

    @invariant()
    def caps_hold(self) -> None:
        kinds = Counter(self.kinds[run_id] for run_id in self.at_work)
        assert kinds["capped"] <= TENANT_CAP
        assert kinds["docker"] + kinds["mixed"] <= 1
        assert kinds["ml"] + kinds["mixed"] <= 2

    def teardown(self) -> None:
        """Nothing is lost: with workers enough and ends enough everything goes."""
        self.have_a_worker(500)
        while self.waiting or self.at_work:
            self.look(100)
            assert self.at_work, f"these are never sent: {self.waiting}"
            for run_id in self.at_work:
                self.scene.end(run_id)
            self.at_work.clear()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_queue_is_fair_and_loses_nothing_whatever_happens(
    kind: str, new_database: Callable[[str], str], tmp_path: Path
) -> None:
    clock = Stopwatch()
    store = Store(open_database(new_database(kind), tmp_path / "lock"), clock)
    scene = Scene(store, clock, POLICY)
    scene.tenant("capped", max_running=TENANT_CAP)
    try:
        live(lambda: QueueLife(scene), examples=EXAMPLES[kind], steps=STEPS, phases=[Phase.explicit, Phase.generate])
    finally:
        store.close()
