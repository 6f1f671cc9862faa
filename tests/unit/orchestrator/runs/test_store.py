"""Only legal steps, only by whoever holds the lease, and events without gaps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from orchestrator.errors import IllegalTransition, RunNotFound, StaleLease
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import (
    DEFAULT_TENANT,
    TRANSITIONS,
    Artifact,
    Lease,
    NewEvent,
    NewRun,
    RunError,
    RunStatus,
    WorkerInfo,
)
from orchestrator.runs.store import WORKER_TTL, Store, now


def event(text: str) -> NewEvent:
    return NewEvent("log", {"level": "info", "text": text}, now())


def claimed(store: Store, run_id: str = "run-a", worker: str = "w1") -> Lease:
    store.add(NewRun(run_id, "name", {"command": "x"}))
    lease = store.claim(run_id, worker)
    assert lease is not None
    return lease


def test_a_run_lives_from_pending_to_success(store: Store) -> None:
    added = store.add(NewRun("run-a", "name", {"command": "x"}))
    assert (added.status, added.attempt, added.spec) == (RunStatus.PENDING, 0, {"command": "x"})
    lease = store.claim("run-a", "w1")
    assert lease == Lease("run-a", 1, "w1")
    running = store.get("run-a")
    assert (running.status, running.attempt, running.worker) == (RunStatus.RUNNING, 1, "w1")
    assert running.started_at is not None
    assert running.started_at.utcoffset() == timedelta(0)
    store.append(lease, [event("one"), event("two")])
    ended = store.finish(lease, RunStatus.SUCCESS)
    assert (ended.status, ended.exit_code) == (RunStatus.SUCCESS, 0)
    assert [(e.seq, e.type) for e in store.events("run-a")] == [(1, "log"), (2, "log"), (3, "run.finished")]
    assert [e.seq for e in store.events("run-a", after=1, limit=1)] == [2]


def test_a_claimed_run_cannot_be_claimed_while_its_worker_lives(store: Store, clock) -> None:
    lease = claimed(store)
    assert store.claim("run-a", "w2") is None
    clock.advance(LEASE_TTL - 1)
    store.heartbeat(lease)
    clock.advance(LEASE_TTL - 1)
    assert store.claim("run-a", "w2") is None


def test_the_run_of_a_silent_worker_is_claimed_again_and_the_old_lease_is_refused(store: Store, clock) -> None:
    old = claimed(store)
    assert store.unclaimed() == []
    clock.advance(LEASE_TTL + 1)
    assert store.unclaimed() == ["run-a"]
    new = store.claim("run-a", "w2")
    assert new is not None
    assert new.token > old.token
    assert store.get("run-a").attempt == 2
    store.append(new, [event("mine")])
    artifact = Artifact("run-a", "x", 1, "0" * 64, now())
    for write in (
        lambda: store.append(old, [event("late")]),
        lambda: store.heartbeat(old),
        lambda: store.set_sandbox(old, {}),
        lambda: store.next_attempt(old, RunError("task", "late")),
        lambda: store.add_artifact(old, artifact),
        lambda: store.finish(old, RunStatus.SUCCESS),
    ):
        with pytest.raises(StaleLease, match="run-a"):
            write()
    assert [e.data["text"] for e in store.events("run-a")] == ["mine"]
    assert store.artifacts("run-a") == []
    assert store.finish(new, RunStatus.SUCCESS).status is RunStatus.SUCCESS


def test_a_lease_ends_with_its_run(store: Store) -> None:
    lease = claimed(store)
    store.finish(lease, RunStatus.ERROR, RunError("task", "no"))
    with pytest.raises(StaleLease):
        store.append(lease, [event("late")])
    assert store.claim("run-a", "w2") is None


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.RUNNING, RunStatus.INTERRUPTED])
def test_a_run_cannot_finish_as_something_that_is_no_end(store: Store, status: RunStatus) -> None:
    with pytest.raises(IllegalTransition, match="run-a"):
        store.finish(claimed(store), status)
    assert store.get("run-a").status is RunStatus.RUNNING
    assert store.events("run-a") == []


def test_every_status_has_its_steps_and_the_terminal_ones_have_none() -> None:
    assert set(TRANSITIONS) == set(RunStatus)
    ends = {status for status in RunStatus if status.terminal}
    assert ends == {RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.CANCELLED}


def test_a_pending_run_is_cancelled_at_once_and_nobody_can_claim_it(store: Store) -> None:
    store.add(NewRun("run-a", "name", {}))
    assert store.request_cancel("run-a").status is RunStatus.CANCELLED
    assert store.claim("run-a", "w1") is None
    assert [e.type for e in store.events("run-a")] == ["run.finished"]


def test_a_running_run_is_asked_to_stop(store: Store) -> None:
    lease = claimed(store)
    assert store.heartbeat(lease) is False
    assert store.request_cancel("run-a").status is RunStatus.RUNNING
    assert store.heartbeat(lease) is True
    assert store.cancel_requested("run-a")


def test_one_heartbeat_is_for_all_runs_that_a_worker_still_holds(store: Store) -> None:
    leases = {name: claimed(store, name) for name in ("run-a", "run-b", "run-c")}
    before = {name: store.get(name).heartbeat_at for name in leases}
    store.request_cancel("run-b")
    store.finish(leases["run-c"], RunStatus.SUCCESS)
    older = replace(leases["run-a"], token=0)
    assert store.heartbeats([*leases.values(), older]) == {leases["run-a"]: False, leases["run-b"]: True}
    assert {name for name in leases if store.get(name).heartbeat_at != before[name]} >= {"run-a", "run-b"}
    assert store.cancels_requested(["run-a", "run-b"]) == {"run-b"}


def test_cancelling_what_has_ended_changes_nothing(store: Store) -> None:
    store.finish(claimed(store), RunStatus.SUCCESS)
    assert store.request_cancel("run-a").status is RunStatus.SUCCESS
    with pytest.raises(RunNotFound, match="run-z"):
        store.request_cancel("run-z")


def test_only_a_pending_run_is_given_up(store: Store) -> None:
    store.add(NewRun("run-a", "name", {}))
    assert store.abandon("run-a", RunError("infrastructure", "no broker")).exit_code == 3
    with pytest.raises(IllegalTransition):
        store.abandon("run-a", RunError("infrastructure", "no broker"))


def test_attempts_and_the_sandbox_are_noted(store: Store) -> None:
    lease = claimed(store)
    assert store.next_attempt(lease, RunError("task", "no")) == 2
    store.set_sandbox(lease, {"id": "sbx-1"})
    assert store.get("run-a").sandbox == {"id": "sbx-1"}
    assert store.finish(lease, RunStatus.SUCCESS).sandbox is None


def test_an_artifact_of_the_same_name_is_replaced(store: Store) -> None:
    lease = claimed(store)
    store.add_artifact(lease, Artifact("run-a", "a", 1, "1" * 64, now()))
    store.add_artifact(lease, Artifact("run-a", "a", 5_000_000_000, "2" * 64, now()))
    assert [(a.name, a.size, a.sha256) for a in store.artifacts("run-a")] == [("a", 5_000_000_000, "2" * 64)]
    assert [e.data for e in store.events("run-a")] == [{"name": "a", "size": 1}, {"name": "a", "size": 5_000_000_000}]


def test_runs_are_found_by_prefix_status_and_age(store: Store) -> None:
    for run_id in ("run-aa", "run-ab", "run-b_"):
        store.add(NewRun(run_id, "name", {}))
    store.request_cancel("run-ab")
    assert [run.id for run in store.recent(limit=2)] == ["run-b_", "run-ab"]
    assert [run.id for run in store.recent(RunStatus.CANCELLED)] == ["run-ab"]
    assert {run.id for run in store.find("run-a", tenant=DEFAULT_TENANT)} == {"run-aa", "run-ab"}
    assert store.find("run-%", tenant=DEFAULT_TENANT) == []
    assert [run.id for run in store.find("run-b_", tenant=DEFAULT_TENANT)] == ["run-b_"]


def test_text_of_any_kind_survives(store: Store) -> None:
    lease = claimed(store)
    text = "nul \0 escape \x1b lone \udc80 wide \U0001f600"
    store.append(lease, [event(text)])
    assert store.events("run-a")[0].data["text"] == text


def test_workers_come_and_go(store: Store, clock) -> None:
    moment = now()
    store.worker_alive(WorkerInfo("w1", "host", 1, 4, moment, moment))
    store.worker_alive(WorkerInfo("w2", "host", 2, 4, moment + timedelta(seconds=1), moment + timedelta(seconds=WORKER_TTL)))
    assert [worker.id for worker in store.workers()] == ["w1", "w2"]
    clock.advance(WORKER_TTL + 1)
    assert [worker.id for worker in store.workers()] == ["w2"]
    store.worker_gone("w2")
    assert store.workers() == []


CONTENDER = """
import json, sys
from pathlib import Path
from orchestrator.runs.models import NewEvent
from orchestrator.runs.schema import open_database
from orchestrator.runs.store import Store, now
url, lock, name = sys.argv[1:4]
store = Store(open_database(url, Path(lock)))
print("ready", flush=True)
sys.stdin.readline()
won = [run for run in sys.argv[4:] if store.claim(run, name)]
lease = store.claim("run-shared-" + name, name)
for number in range(50):
    store.append(lease, [NewEvent("log", {"n": number}, now())])
print(json.dumps(won))
"""


def test_of_processes_that_claim_at_once_each_run_has_one_winner(store: Store, database: str, tmp_path: Path) -> None:
    runs = [f"run-{number}" for number in range(20)]
    names = ["p1", "p2", "p3"]
    for run_id in [*runs, *(f"run-shared-{name}" for name in names)]:
        store.add(NewRun(run_id, "name", {}))
    command = [sys.executable, "-c", CONTENDER, database, str(tmp_path / "lock")]
    environ = {**os.environ, "PYTHONWARNINGS": "error"}
    processes = [
        subprocess.Popen([*command, name, *runs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
        for name in names
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    won = [json.loads(answer) for answer in (_go(process) for process in _started(processes))]
    assert sorted(run for wins in won for run in wins) == sorted(runs)
    for name in names:
        assert [e.seq for e in store.events(f"run-shared-{name}")] == list(range(1, 51))


def _started(processes: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def _go(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


def test_who_follows_a_run_is_told_what_is_new_and_whether_it_is_over(store: Store) -> None:
    lease = claimed(store)
    assert store.tail("run-a", 0, 10, tenant=DEFAULT_TENANT) == ([], False)
    store.append(lease, [event("one"), event("two"), event("three")])
    assert store.tail("run-a", 1, 1, tenant=DEFAULT_TENANT) == (store.events("run-a", 1, 1), False)
    assert store.tail("run-a", 3, 10, tenant=DEFAULT_TENANT) == ([], False)
    store.finish(lease, RunStatus.SUCCESS)
    assert store.tail("run-a", 1, 1, tenant=DEFAULT_TENANT) == (store.events("run-a", 1, 1), False)
    assert store.tail("run-a", 1, 10, tenant=DEFAULT_TENANT) == (store.events("run-a", 1), True)
    assert store.tail("run-a", 3, 10, tenant=DEFAULT_TENANT) == (store.events("run-a", 3), True)
    assert store.tail("run-a", 4, 10, tenant=DEFAULT_TENANT) == ([], True)


def test_nobody_follows_the_run_of_another_tenant(store: Store) -> None:
    claimed(store)
    for run_id, tenant in (("run-a", "other"), ("run-b", DEFAULT_TENANT)):
        with pytest.raises(RunNotFound, match=f"there is no run '{run_id}'"):
            store.tail(run_id, 0, 10, tenant=tenant)
