"""Below a run that has ended nothing goes on, whoever ended it; and what is below a run goes when it goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import event

from orchestrator.errors import StaleLease
from orchestrator.runs import checkpoint_tables as steps
from orchestrator.runs import tables as t
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.files import RESERVED, SECRETS_FILE, RunFolder
from orchestrator.runs.models import Artifact, AttemptStatus, NewRun, RunError, RunStatus
from orchestrator.runs.retention import discard
from orchestrator.runs.store import Store
from orchestrator.runs.threads import Multitask, Threads
from orchestrator.runs.webhooks import Webhook, Webhooks
from tests.unit.orchestrator.runs.families import AGENT, Kin
from tests.unit.orchestrator.runs.test_races import at_once
from tests.unit.orchestrator.runs.test_retention import make_old, rows_of

ROUNDS = 20
FAILED = RunError("task", "no")


@pytest.fixture
def kin(store: Store, clock) -> Kin:
    return Kin(store, clock)


class Tree:
    """`run-p` with three children: one has ended, one waits, one runs. Below it one runs and one waits."""

    def __init__(self, kin: Kin, thread_id: str | None = None) -> None:
        self.kin = kin
        self.lease = kin.top(thread_id=thread_id)
        self.over, self.running, self.waiting = kin.begin(self.lease, "over", "running", "waiting")
        kin.end(self.over)
        self.leases = [kin.grant(self.running)]
        self.deep, self.deep_waiting = kin.begin(self.leases[0], "deep", "waiting")
        self.leases.append(kin.grant(self.deep))

    @property
    def open(self) -> list[str]:
        return [self.running, self.waiting, self.deep, self.deep_waiting]

    def statuses(self) -> set[RunStatus]:
        return {self.kin.status(run_id) for run_id in self.open}


@pytest.fixture
def tree(kin: Kin) -> Tree:
    return Tree(kin)


def finish(tree: Tree) -> None:
    tree.kin.store.finish(tree.lease, RunStatus.SUCCESS)


def cancel_what_was_handed_over(tree: Tree) -> None:
    tree.kin.store.release(tree.lease)
    tree.kin.store.request_cancel("run-p")


def give_up_what_was_handed_over(tree: Tree) -> None:
    tree.kin.store.release(tree.lease)
    tree.kin.store.abandon("run-p", FAILED)


def let_a_question_expire(tree: Tree) -> None:
    tree.kin.store.interrupt(tree.lease, {"actions": []}, tree.kin.clock() - timedelta(seconds=1))
    assert ControlRecord(tree.kin.store.engine, tree.kin.clock).expire_decisions() == ["run-p"]


@pytest.mark.parametrize("end", [finish, cancel_what_was_handed_over, give_up_what_was_handed_over, let_a_question_expire])
def test_with_a_run_ends_all_that_goes_on_below_it(tree: Tree, end: Callable[[Tree], None]) -> None:
    end(tree)
    kin = tree.kin
    assert kin.status("run-p").terminal
    assert tree.statuses() == {RunStatus.CANCELLED}
    assert kin.status(tree.over) is RunStatus.SUCCESS
    for run_id in tree.open:
        assert [one.type for one in kin.store.events(run_id)] == ["run.finished"]
        assert {one.status for one in kin.store.attempts(run_id)} <= {AttemptStatus.CANCELLED}
    for lease in tree.leases:
        with pytest.raises(StaleLease):
            kin.store.heartbeat(lease)


def test_with_a_run_that_another_one_of_its_thread_replaces_ends_what_is_below_it(kin: Kin) -> None:
    Threads(kin.store.engine).add("thr-1", {}, tenant="default")
    tree = Tree(kin, thread_id="thr-1")
    kin.store.release(tree.lease)
    kin.store.add(NewRun("run-next", "next", AGENT, thread_id="thr-1"), Multitask.INTERRUPT)
    assert tree.statuses() == {RunStatus.CANCELLED}


def test_what_is_beside_a_run_that_ended_or_above_it_goes_on(tree: Tree) -> None:
    kin = tree.kin
    kin.store.finish(tree.leases[0], RunStatus.ERROR, FAILED)
    assert [kin.status(run_id) for run_id in (tree.deep, tree.deep_waiting)] == [RunStatus.CANCELLED] * 2
    assert [kin.status(run_id) for run_id in ("run-p", tree.waiting)] == [RunStatus.RUNNING, RunStatus.PENDING]
    kin.store.heartbeat(tree.lease)


def test_what_ends_with_its_parent_leaves_no_secrets_and_no_checkpoints(kin: Kin, database: str) -> None:
    lease = kin.top()
    secret = Artifact("run-c", RESERVED + SECRETS_FILE, 3, "a" * 64, kin.clock())
    kin.family.begin(lease, "1:a", [NewRun("run-c", "c", AGENT, frozen=(secret,))], max_depth=1, max_runs=2)
    kin.grant("run-c")
    with kin.store._writing() as connection:
        place = {"thread": "t", "ns": "", "id": "1", "run_id": "run-c"}
        connection.execute(steps.checkpoints.insert().values(**place, kind="json", data=b"", meta={}))
    kin.store.finish(lease, RunStatus.SUCCESS)
    assert kin.store.frozen("run-c") == []
    assert rows_of(database, steps.checkpoints) == set()


def test_who_asks_a_run_to_stop_asks_all_that_runs_below_it_and_ends_what_waits(tree: Tree) -> None:
    kin = tree.kin
    assert kin.store.request_cancel("run-p").status is RunStatus.RUNNING
    for lease in (tree.lease, *tree.leases):
        assert kin.store.heartbeat(lease)
    assert [kin.status(run_id) for run_id in (tree.waiting, tree.deep_waiting)] == [RunStatus.CANCELLED] * 2
    assert kin.status(tree.over) is RunStatus.SUCCESS
    kin.store.request_cancel("run-p")
    assert [one.type for one in kin.store.events(tree.waiting)] == ["run.finished"]


def test_a_child_that_is_asked_to_stop_stops_alone(tree: Tree) -> None:
    tree.kin.store.request_cancel(tree.waiting)
    tree.kin.store.request_cancel(tree.deep)
    assert tree.kin.status(tree.waiting) is RunStatus.CANCELLED
    assert [tree.kin.store.cancel_requested(run_id) for run_id in (tree.deep, tree.running, "run-p")] == [True, False, False]


@pytest.mark.parametrize("begin_again", ["next_attempt", "start_over"])
def test_a_run_that_begins_again_from_nothing_has_no_fan_outs_and_its_children_are_history(
    tree: Tree, begin_again: str
) -> None:
    kin = tree.kin
    if begin_again == "next_attempt":
        kin.store.next_attempt(tree.lease, FAILED)
    else:
        kin.store.start_over(tree.lease)
    assert tree.statuses() == {RunStatus.CANCELLED}
    assert kin.family.fan_outs("run-p") == []
    assert kin.begin(tree.lease, "new", key="2:a") == ["run-p-new"]
    assert [run.id for run in kin.family.children("run-p")] == [tree.over, tree.running, tree.waiting, "run-p-new"]
    assert kin.status("run-p-new") is RunStatus.PENDING


def test_the_end_of_a_command_asks_for_no_children(kin: Kin) -> None:
    kin.store.add(NewRun("run-c", "name", {"command": "true"}))
    lease = kin.store.claim("run-c", "w")
    assert lease is not None
    agent = kin.top()
    asked: list[str] = []
    event.listen(kin.store.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    kin.store.start_over(lease)
    kin.store.request_cancel("run-c")
    kin.store.finish(lease, RunStatus.SUCCESS)
    assert not [one for one in asked if "parent_id IN" in one or "fan_outs" in one]
    kin.store.finish(agent, RunStatus.SUCCESS)
    assert len([one for one in asked if "parent_id IN" in one]) == 1


def test_receivers_are_told_of_what_was_submitted_and_not_of_children(tree: Tree) -> None:
    kin, webhooks = tree.kin, Webhooks(tree.kin.store.engine, tree.kin.clock)
    events = ("run.finished", "run.interrupted")
    webhooks.add(Webhook("whk-1", "default", "https://a.example", events, True, kin.clock()), "sealed")
    kin.store.interrupt(tree.leases[1], {"actions": []}, kin.clock() + timedelta(seconds=60))
    kin.store.finish(tree.leases[0], RunStatus.SUCCESS)
    assert webhooks.deliveries("whk-1", 10, tenant="default") == []
    finish(tree)
    assert [one.run_id for one in webhooks.deliveries("whk-1", 10, tenant="default")] == ["run-p"]


# Forgetting


def test_children_are_forgotten_with_the_run_at_their_top_and_never_alone(tree: Tree, database: str) -> None:
    kin = tree.kin
    assert kin.store.prunable() == []
    kin.store.forget([tree.over])
    assert kin.status(tree.over) is RunStatus.SUCCESS
    finish(tree)
    assert kin.store.prunable() == ["run-p"]
    assert kin.store.prunable(keep=1) == []
    kin.store.forget(["run-p", *tree.open])
    assert kin.family.tree("run-p") == []
    assert kin.store.find("run-", limit=10, tenant="default") == []
    for table in (t.events, t.attempts, t.fan_outs):
        assert rows_of(database, table) == set()


async def test_folders_and_contents_of_children_go_with_them(tree: Tree, tmp_path: Path) -> None:
    kin = tree.kin
    artifacts, runs_dir = ArtifactStore(str(tmp_path / "artifacts"), tmp_path / "spool"), tmp_path / "runs"
    (tmp_path / "text").write_text("what it left")
    for run_id, lease in zip((tree.running, tree.deep), tree.leases, strict=True):
        RunFolder.of(runs_dir, run_id).create()
        kin.store.add_artifact(lease, artifacts.keep_file(run_id, "text", tmp_path / "text"))
    RunFolder.of(runs_dir, "run-other").create()
    finish(tree)
    make_old(tmp_path / "artifacts")
    discard(kin.store, ["run-p"], runs_dir=runs_dir, artifacts=artifacts)
    assert [path.name for path in runs_dir.iterdir()] == ["run-other"]
    assert list(artifacts.old()) == []


# At once


def test_nothing_goes_on_below_a_run_that_ends_while_its_family_is_at_work(kin: Kin) -> None:
    for number in range(ROUNDS):
        lease = kin.top(f"run-{number}")
        first, second, third = kin.begin(lease, "a", "b", "c")
        child = kin.grant(first)
        answers = at_once(
            partial(kin.store.finish, lease, RunStatus.SUCCESS),
            partial(kin.begin, lease, "d", key="1:d"),
            partial(kin.begin, child, "e"),
            partial(kin.granting.grant, second, "w"),
            partial(kin.store.request_cancel, third),
            partial(kin.store.request_cancel, lease.run_id),
            partial(kin.store.finish, child, RunStatus.SUCCESS),
            partial(kin.store.next_attempt, child, FAILED),
        )
        assert [one for one in answers if isinstance(one, Exception) and not isinstance(one, StaleLease)] == []
        assert kin.status(lease.run_id) is RunStatus.SUCCESS
        assert {run.status for run in kin.family.tree(lease.run_id)} <= {RunStatus.SUCCESS, RunStatus.CANCELLED}
