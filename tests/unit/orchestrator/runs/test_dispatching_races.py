"""Many submitters and many controllers at once: no cap is ever exceeded, and no run is sent twice."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.errors import QuotaExceeded
from orchestrator.policy import Policy
from orchestrator.runs.dispatching import Dispatching
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.store import Store
from tests.unit.orchestrator.runs.queueing import Scene

SUBMITTERS = 4
CONTROLLERS = 3
RUNS = 12
"""Of each submitter."""
POLICY = Policy.model_validate({"caps": {"provider": {"docker": 3}, "label": {"team=ml": 2}}})
TENANT_CAP = 2


class Rush:
    """Submitters and controllers, each with a view of its own of the same record, and workers that end what is sent."""

    def __init__(self, store: Store, clock) -> None:
        self.store, self.clock = store, clock
        self.sent: list[str] = []
        self.worst: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._at_work: Counter[str] = Counter()
        self.left = SUBMITTERS * RUNS

    def queue(self) -> Dispatching:
        return Dispatching(self.store._engine, POLICY, self.clock)

    def submit(self, number: int) -> None:
        queue = self.queue()
        for n in range(RUNS):
            kind = ("docker", "ml", "capped", "plain")[(n + number) % 4]
            spec = {"sandbox": {"provider": "docker" if kind == "docker" else "local"}}
            labels = {"team": "ml"} if kind == "ml" else {}
            _, added = queue.add(NewRun(f"run-{kind}-{number}-{n}", "name", spec, kind, labels))
            self.take([send.run_id for send in added.sends])

    def control(self) -> None:
        queue = self.queue()
        while self.left:
            self.take([send.run_id for send in queue.dispatch()])

    def take(self, sends: list[str]) -> None:
        """What was sent is at work, until it ends."""
        with self._lock:
            self.sent += sends
            self._at_work.update(run_id.split("-")[1] for run_id in sends)
            for kind, count in self._at_work.items():
                self.worst[kind] = max(self.worst[kind], count)
        for run_id in sends:
            lease = self.store.claim(run_id, "w")
            assert lease is not None
            with self._lock:
                self._at_work[run_id.split("-")[1]] -= 1
            self.store.finish(lease, RunStatus.SUCCESS)
            with self._lock:
                self.left -= 1


def test_no_cap_is_exceeded_by_many_at_once_and_nothing_is_sent_twice(store: Store, clock) -> None:
    scene = Scene(store, clock)
    scene.tenant("capped", max_running=TENANT_CAP)
    scene.worker(100)
    rush = Rush(store, clock)
    with ThreadPoolExecutor(SUBMITTERS + CONTROLLERS) as pool:
        controllers = [pool.submit(rush.control) for _ in range(CONTROLLERS)]
        for submitter in [pool.submit(rush.submit, number) for number in range(SUBMITTERS)]:
            submitter.result()
        for controller in controllers:
            controller.result()
    assert len(rush.sent) == len(set(rush.sent)) == SUBMITTERS * RUNS
    assert rush.worst["docker"] <= 3
    assert rush.worst["ml"] <= 2
    assert rush.worst["capped"] <= TENANT_CAP


def test_without_ends_exactly_the_cap_is_sent_however_many_decide(store: Store, clock) -> None:
    scene = Scene(store, clock)
    scene.tenant("capped", max_running=5)
    scene.queue.add_many([NewRun(f"run-{n}", "name", {}, "capped") for n in range(40)])
    scene.worker(100)
    queues = [Dispatching(store._engine, Policy(), clock) for _ in range(6)]
    with ThreadPoolExecutor(len(queues)) as pool:
        sends = [send.run_id for part in pool.map(lambda queue: queue.dispatch(), queues) for send in part]
    assert len(sends) == len(set(sends)) == 5


def test_a_full_queue_is_full_for_many_that_submit_at_once(store: Store, clock) -> None:
    scene = Scene(store, clock)
    scene.tenant("small", max_queued=7)

    def submit(number: int) -> bool:
        try:
            scene.queue.add(NewRun(f"run-{number}", "name", {}, "small"))
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(submit, range(24))) == 7


def test_a_run_that_is_cancelled_while_it_is_sent_is_either(store: Store, clock) -> None:
    scene = Scene(store, clock)
    scene.worker(500)
    runs = [f"run-{n}" for n in range(40)]
    store.add_many([NewRun(run_id, "name", {}) for run_id in runs])
    with ThreadPoolExecutor(2) as pool:
        decisions = pool.submit(lambda: [send.run_id for _ in range(40) for send in scene.queue.dispatch(1)])
        for run_id in reversed(runs):
            store.request_cancel(run_id)
        sent = decisions.result()
    assert len(sent) == len(set(sent))
    assert {store.get(run_id).status for run_id in runs} == {RunStatus.CANCELLED}
    assert scene.look() == []


@pytest.mark.parametrize("submitters", [6])
def test_tenants_that_are_new_are_made_once(store: Store, clock, submitters: int) -> None:
    scene = Scene(store, clock)
    with ThreadPoolExecutor(submitters) as pool:
        list(pool.map(lambda n: scene.queue.add(NewRun(f"run-{n}", "name", {}, "new")), range(submitters)))
    scene.worker(100)
    assert len(scene.look()) == submitters
