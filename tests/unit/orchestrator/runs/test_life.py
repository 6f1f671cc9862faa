"""Any sequence of calls, over the real store: what may happen happens, what may not is refused and changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from orchestrator.errors import IllegalTransition, StaleLease
from orchestrator.policy import Policy
from orchestrator.runs.dispatching import Dispatching
from orchestrator.runs.leases import LEASE_TTL, patience
from orchestrator.runs.models import (
    TRANSITIONS,
    Artifact,
    Attempt,
    Event,
    Lease,
    NewEvent,
    NewRun,
    Run,
    RunError,
    RunStatus,
    WorkerInfo,
)
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store
from tests.unit.orchestrator.runs.lives import BEGAN, Stopwatch, live

EXAMPLES = {"sqlite": 60, "postgresql": 20}
STEPS = 30
FAILED = RunError("task", "it failed")


@dataclass
class Expected:
    """What a run has to look like."""

    status: RunStatus = RunStatus.PENDING
    token: int = 0
    heard: datetime = BEGAN
    attempts: list[str] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    cancel: bool = False
    sent: bool = True
    """Whether a worker may claim it."""
    epoch: int = 0
    sandbox: bool = False
    final: tuple[Run, list[Event], list[Attempt]] | None = None


class Life(RuleBasedStateMachine):
    """Runs with random ids in one store, so that one database serves every example."""

    runs = Bundle("runs")
    leases = Bundle("leases")

    def __init__(self, store: Store, clock: Stopwatch) -> None:
        super().__init__()
        self.store, self.clock = store, clock
        self.dispatching = Dispatching(store.engine, Policy(), clock)
        self.expected: dict[str, Expected] = {}

    @rule(target=runs)
    def add(self) -> str:
        run_id = f"run-{uuid.uuid4().hex[:12]}"
        assert self.store.add(NewRun(run_id, "name", {})).status is RunStatus.PENDING
        self.expected[run_id] = Expected()
        return run_id

    @rule(target=leases, run=runs, worker=st.sampled_from(["w1", "w2"]))
    def claim(self, run: str, worker: str) -> Lease:
        expected, lease = self.expected[run], self.store.claim(run, worker)
        silent = expected.heard + timedelta(seconds=patience(expected.attempts.count("lost"))) < self.clock.moment
        waits = expected.status is RunStatus.PENDING and expected.sent
        free = waits or (expected.status is RunStatus.RUNNING and silent)
        assert (lease is not None) == free
        if lease is None:
            return Lease(run, 0, worker)  # nobody ever gives this one: it must be good for nothing
        if expected.status is RunStatus.RUNNING:
            expected.attempts[-1] = "lost"
        assert lease == Lease(run, expected.token + 1, worker)
        expected.status, expected.token, expected.heard = RunStatus.RUNNING, lease.token, self.clock.moment
        expected.attempts.append("running")
        if not expected.sandbox:
            expected.epoch = len(expected.attempts)
        return lease

    @rule(seconds=st.sampled_from([0.5, LEASE_TTL, LEASE_TTL + 0.5, 60.0]))
    def wait(self, seconds: float) -> None:
        self.clock.moment += timedelta(seconds=seconds)

    @rule(lease=leases)
    def heartbeat(self, lease: Lease) -> None:
        def change(expected: Expected) -> None:
            expected.heard = self.clock.moment

        self.write(lease, lambda: self.store.heartbeat(lease), change)

    @rule(lease=leases, numbers=st.lists(st.integers(0, 9), min_size=1, max_size=3))
    def append(self, lease: Lease, numbers: list[int]) -> None:
        new = [NewEvent("log", {"n": number}, self.clock.moment) for number in numbers]
        self.write(lease, lambda: self.store.append(lease, new), lambda expected: expected.events.extend(numbers))

    @rule(lease=leases)
    def keep_artifact(self, lease: Lease) -> None:
        artifact = Artifact(lease.run_id, "a", 1, "0" * 64, self.clock.moment)
        self.write(lease, lambda: self.store.add_artifact(lease, artifact), lambda expected: expected.events.append("a"))

    @rule(lease=leases)
    def note_sandbox(self, lease: Lease) -> None:
        handle = {"id": "sbx-1", "provider": "local"}
        self.write(lease, lambda: self.store.set_sandbox(lease, handle), self.has_sandbox)

    def has_sandbox(self, expected: Expected) -> None:
        expected.sandbox = True

    @rule(lease=leases)
    def begin_again(self, lease: Lease) -> None:
        def change(expected: Expected) -> None:
            expected.sandbox, expected.epoch = False, len(expected.attempts)

        self.write(lease, lambda: self.store.start_over(lease), change)

    @rule(lease=leases)
    def settle(self, lease: Lease) -> None:
        self.write(lease, lambda: self.store.settle(lease, RunStatus.SUCCESS, None), lambda expected: None)

    @rule(lease=leases)
    def hand_over(self, lease: Lease) -> None:
        def change(expected: Expected) -> None:
            expected.status, expected.attempts[-1] = RunStatus.PENDING, "released"

        self.write(lease, lambda: self.store.release(lease), change)

    @rule(lease=leases)
    def ask(self, lease: Lease) -> None:
        def change(expected: Expected) -> None:
            expected.status, expected.attempts[-1] = RunStatus.INTERRUPTED, "interrupted"
            expected.events.append("ask")

        by = self.clock.moment + timedelta(days=1)
        self.write(lease, lambda: self.store.interrupt(lease, {"actions": []}, by), change)

    @rule(run=runs)
    def decide(self, run: str) -> None:
        expected = self.expected[run]
        if expected.status is not RunStatus.INTERRUPTED:
            with pytest.raises(IllegalTransition):
                self.store.decide(run, {"decisions": []})
            return
        self.store.decide(run, {"decisions": []})
        expected.status, expected.sent = RunStatus.PENDING, False
        expected.events.append("decide")

    @rule()
    def send_what_waits(self) -> None:
        moment = self.clock.moment
        self.store.worker_alive(WorkerInfo("w", "host", 1, 1_000_000, moment, moment))
        while sends := self.dispatching.dispatch():
            for send in sends:
                if send.run_id in self.expected:
                    self.expected[send.run_id].sent = True

    @rule(lease=leases)
    def retry(self, lease: Lease) -> None:
        def change(expected: Expected) -> None:
            expected.attempts[-1:] = ["error", "running"]
            expected.sandbox, expected.epoch = False, len(expected.attempts)

        self.write(lease, lambda: self.store.next_attempt(lease, FAILED), change)

    @rule(lease=leases, status=st.sampled_from(list(RunStatus)))
    def finish(self, lease: Lease, status: RunStatus) -> None:
        if self.holds(lease) and (not status.terminal or status not in TRANSITIONS[RunStatus.RUNNING]):
            with pytest.raises(IllegalTransition):
                self.store.finish(lease, status)
            return

        def change(expected: Expected) -> None:
            expected.attempts[-1] = status.value
            self.end(expected, status)

        self.write(lease, lambda: self.store.finish(lease, status), change)

    @rule(run=runs)
    def cancel(self, run: str) -> None:
        expected = self.expected[run]
        assert self.store.request_cancel(run).id == run
        if expected.status in (RunStatus.PENDING, RunStatus.INTERRUPTED):
            self.end(expected, RunStatus.CANCELLED)
        expected.cancel = expected.cancel or expected.status is RunStatus.RUNNING

    @rule(run=runs)
    def abandon(self, run: str) -> None:
        if self.expected[run].status is RunStatus.PENDING:
            self.store.abandon(run, FAILED)
            self.end(self.expected[run], RunStatus.ERROR)
        else:
            with pytest.raises(IllegalTransition):
                self.store.abandon(run, FAILED)

    def holds(self, lease: Lease) -> bool:
        expected = self.expected[lease.run_id]
        return expected.status is RunStatus.RUNNING and expected.token == lease.token

    def write(self, lease: Lease, call: Callable[[], object], change: Callable[[Expected], None]) -> None:
        """A worker's write: it changes what it should, or is refused."""
        if self.holds(lease):
            call()
            change(self.expected[lease.run_id])
        else:
            with pytest.raises(StaleLease):
                call()

    def end(self, expected: Expected, status: RunStatus) -> None:
        expected.status = status
        expected.events.append("end")

    @invariant()
    def every_run_is_as_expected(self) -> None:
        for run_id, expected in self.expected.items():
            run, events, attempts = self.store.get(run_id), self.store.events(run_id), self.store.attempts(run_id)
            if expected.final is not None:
                assert (run, events, attempts) == expected.final
                continue
            assert (run.status, run.attempt, run.cancel_requested) == (expected.status, len(attempts), expected.cancel)
            if attempts and not run.status.terminal:
                assert (run.epoch, run.sandbox is not None) == (expected.epoch, expected.sandbox)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert [_told(event) for event in events] == expected.events
            assert [one.number for one in attempts] == list(range(1, len(attempts) + 1))
            assert [one.status.value for one in attempts] == expected.attempts
            assert all((one.finished_at is not None) == one.status.over for one in attempts)
            assert (run.sandbox is None) or not run.status.terminal
            if run.status.terminal:
                expected.final = (run, events, attempts)


def _told(event: Event) -> Any:
    told = {"artifact.created": "a", "run.finished": "end", "run.interrupted": "ask", "run.decided": "decide"}
    return event.data.get("n") if event.type == "log" else told[event.type]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_run_lives_by_the_rules_whatever_is_called(kind: str, new_database: Callable[[str], str], tmp_path: Path) -> None:
    clock = Stopwatch()
    store = Store(open_database(new_database(kind), tmp_path / "lock"), clock)
    try:
        live(lambda: Life(store, clock), examples=EXAMPLES[kind], steps=STEPS)
    finally:
        store.close()
