"""The children of a fan-out are runs of the record, which belong where their parent does and wait for nobody but its worker."""

from __future__ import annotations

from functools import partial

import pytest

from orchestrator.errors import BadInput, NotFound, StaleLease
from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.files import RESERVED
from orchestrator.runs.keeping import Owner
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.listing import Filters, Listing
from orchestrator.runs.models import Artifact, Lease, NewRun, RunStatus
from orchestrator.runs.reading import WORKER_TTL
from orchestrator.runs.store import Store
from orchestrator.runs.threads import Threads
from tests.unit.orchestrator.runs.families import AGENT, KEY, MAX_DEPTH, Kin
from tests.unit.orchestrator.runs.queueing import Scene
from tests.unit.orchestrator.runs.test_races import at_once


@pytest.fixture
def kin(store: Store, clock) -> Kin:
    return Kin(store, clock)


@pytest.fixture
def lease(kin: Kin) -> Lease:
    return kin.top()


# Beginning


def test_children_are_recorded_in_task_order_and_belong_where_their_parent_does(kin: Kin, store: Store) -> None:
    Threads(store.engine).add("thr-1", {}, tenant="acme")
    lease = kin.top(
        tenant="acme", labels={"team": "ml"}, priority=7, thread_id="thr-1", batch_id="bat-1", traceparent="00-trace"
    )
    own = {"tenant": "other", "labels": {"team": "web"}, "priority": 99, "thread_id": "thr-2", "batch_id": "bat-2"}
    docker = {**AGENT, "sandbox": {"provider": "docker"}}
    new = [NewRun(f"run-{name}", name, docker, **own) for name in ("z", "a", "m")]
    children = kin.family.begin(lease, KEY, new, max_depth=1, max_runs=4)
    assert [(child.name, child.place, child.status) for child in children] == [
        ("z", 0, RunStatus.PENDING), ("a", 1, RunStatus.PENDING), ("m", 2, RunStatus.PENDING)
    ]  # fmt: skip
    for child in children:
        assert (child.tenant, child.labels, child.priority, child.provider) == ("acme", {"team": "ml"}, 7, "docker")
        assert (child.thread_id, child.batch_id, child.traceparent) == (None, None, "00-trace")
        assert (child.parent_id, child.root_id, child.top, child.depth, child.fan_out) == ("run-p", "run-p", "run-p", 1, KEY)
    assert kin.family.children("run-p", KEY) == children
    parent = kin.run("run-p")
    assert (parent.parent_id, parent.root_id, parent.top, parent.depth, parent.place) == (None, None, "run-p", 0, None)


def test_children_of_children_know_the_top_of_their_tree(kin: Kin, lease: Lease) -> None:
    first, second = kin.begin(lease, "a", "b")
    (grandchild,) = kin.begin(kin.grant(first), "c")
    found = kin.run(grandchild)
    assert (found.parent_id, found.top, found.depth) == (first, "run-p", 2)
    assert [run.id for run in kin.family.tree("run-p")] == [first, second, grandchild]
    assert [run.id for run in kin.family.tree(first)] == [grandchild]
    assert kin.family.tree(grandchild) == kin.family.tree("run-none") == []


def test_a_fan_out_that_was_begun_before_has_the_children_that_it_had(kin: Kin, lease: Lease, clock) -> None:
    first, second = kin.begin(lease, "a", "b")
    kin.end(first)
    clock.advance(LEASE_TTL + 1)
    again = kin.store.claim("run-p", "w2")
    assert again is not None
    found = kin.family.begin(again, KEY, [NewRun("run-x", "x", AGENT)], max_depth=0, max_runs=0)
    assert [(run.id, run.status) for run in found] == [(first, RunStatus.SUCCESS), (second, RunStatus.PENDING)]


def test_one_fan_out_after_the_other_and_one_without_children(kin: Kin, lease: Lease) -> None:
    children = [*kin.begin(lease, "a", "b", key="1:x"), *kin.begin(lease, "c", "d", key="1:b")]
    assert kin.begin(lease, key="1:none") == kin.begin(lease, "late", key="1:none") == []
    assert [run.id for run in kin.family.children("run-p")] == children
    assert [run.id for run in kin.family.children("run-p", "1:b")] == children[2:]
    assert [one.key for one in kin.family.fan_outs("run-p")] == ["1:x", "1:b", "1:none"]


def test_what_was_frozen_for_a_child_is_there_as_soon_as_it_is(kin: Kin, lease: Lease, clock) -> None:
    frozen = Artifact("run-c", f"{RESERVED}input.tar", 3, "a" * 64, clock())
    kin.family.begin(lease, KEY, [NewRun("run-c", "c", AGENT, frozen=(frozen,))], max_depth=1, max_runs=2)
    assert kin.store.frozen("run-c") == [frozen]


def test_a_tree_has_a_depth_and_a_number_of_runs_that_it_cannot_pass(kin: Kin, lease: Lease) -> None:
    (one,) = kin.begin(lease, "a")
    (two,) = kin.begin(kin.grant(one), "a")
    (three,) = kin.begin(kin.grant(two), "a")
    with pytest.raises(BadInput, match=f"is 3 fan-outs deep, and {MAX_DEPTH} are allowed"):
        kin.begin(kin.grant(three), "a")
    with pytest.raises(BadInput, match="run-p and all below it are 4 runs, and may be 5: 2 more are too many"):
        kin.begin(lease, "x", "y", key="1:more", max_runs=5)
    assert kin.family.fan_out("run-p", "1:more") is None
    assert kin.begin(lease, "x", key="1:more", max_runs=5) == ["run-p-x"]


def test_a_command_has_no_children(kin: Kin, lease: Lease) -> None:
    (command,) = kin.begin(lease, "a", spec={"command": "true"})
    with pytest.raises(BadInput, match="is a command: only an agent or a `fan_out` has children"):
        kin.begin(kin.grant(command), "b")
    (fan_out,) = kin.begin(lease, "c", key="1:b", spec={"fan_out": {"items": []}})
    kin.begin(kin.grant(fan_out), "d")


def test_whoever_has_lost_the_parent_begins_and_notes_nothing(kin: Kin, lease: Lease, clock) -> None:
    kin.begin(lease, "a")
    clock.advance(LEASE_TTL + 1)
    assert kin.store.claim("run-p", "w2") is not None
    base = Artifact("run-p", f"{RESERVED}base", 3, "a" * 64, clock())
    for write in (
        partial(kin.begin, lease, "b", key="1:late"),
        partial(kin.family.note_base, lease, KEY, base),
        partial(kin.family.note_plan, lease, KEY, base),
        partial(kin.family.note_result, lease, KEY, {}),
    ):
        with pytest.raises(StaleLease):
            write()
    found = kin.family.fan_out("run-p", KEY)
    assert found is not None
    assert (found.base, found.plan, found.result) == (None, None, None)
    assert [one.key for one in kin.family.fan_outs("run-p")] == [KEY]


# Noting


def test_what_is_noted_of_a_fan_out_goes_with_the_run_and_is_told_to_nobody(kin: Kin, lease: Lease, clock) -> None:
    kin.begin(lease, "a")
    base, plan = (Artifact("run-p", f"{RESERVED}{name}", 3, digit * 64, clock()) for name, digit in (("b", "b"), ("p", "c")))
    kin.family.note_base(lease, KEY, base)
    kin.family.note_base(lease, KEY, base)
    kin.family.note_plan(lease, KEY, plan)
    kin.family.note_result(lease, KEY, {"merged": ["a.txt"]})
    found = kin.family.fan_out("run-p", KEY)
    assert found is not None
    assert (found.base, found.plan, found.result) == (base.sha256, plan.sha256, {"merged": ["a.txt"]})
    assert kin.store.unreferenced([base.sha256, plan.sha256, "d" * 64]) == ["d" * 64]
    assert kin.store.artifacts("run-p") == []
    assert kin.store.events("run-p") == []
    kin.store.finish(lease, RunStatus.SUCCESS)
    kin.store.forget(["run-p"])
    assert kin.store.unreferenced([base.sha256]) == [base.sha256]
    assert kin.family.fan_outs("run-p") == []


def test_nothing_is_noted_of_a_fan_out_that_was_not_begun(kin: Kin, lease: Lease, clock) -> None:
    base = Artifact("run-p", f"{RESERVED}b", 3, "b" * 64, clock())
    with pytest.raises(NotFound, match="run run-p has no fan-out '1:a': begin it first"):
        kin.family.note_base(lease, KEY, base)
    assert kin.store.unreferenced([base.sha256]) == [base.sha256]


# Whom they wait for


def test_a_child_is_sent_to_nobody_and_claimed_by_nobody_else(kin: Kin, lease: Lease, clock) -> None:
    scene, record = Scene(kin.store, clock), ControlRecord(kin.store.engine, clock)
    pending, released, lost = kin.begin(lease, "a", "b", "c")
    kin.store.release(kin.grant(released))
    kin.grant(lost)
    scene.worker(50)
    assert not scene.queue.anything_waits()
    assert scene.look() == []
    assert [kin.store.claim(run_id, "w2") for run_id in (pending, released, lost)] == [None] * 3
    clock.advance(max(LEASE_TTL, WORKER_TTL) + 60)
    scene.worker(50)
    assert scene.look() == []
    assert kin.store.claim(lost, "w2") is None
    assert kin.store.unclaimed() == [one.id for one in record.lost_runs()] == ["run-p"]
    kin.store.release(kin.store.claim("run-p", "w2") or lease)
    assert [one.id for one in record.pending_runs(older_than=1)] == ["run-p"]


def test_children_are_not_in_their_tenants_queue(kin: Kin, lease: Lease, clock) -> None:
    scene = Scene(kin.store, clock)
    scene.tenant("default", max_queued=1)
    kin.begin(lease, *map(str, range(5)))
    scene.submit("run-other")


def test_a_list_of_runs_has_no_children_unless_they_are_asked_for(kin: Kin, lease: Lease) -> None:
    first, second = kin.begin(lease, "a", "b")
    (grandchild,) = kin.begin(kin.grant(first), "c")
    listing = Listing(kin.store.engine)

    def page(parent_id: str | None = None, *, with_children: bool = False) -> list[str]:
        filters = Filters(parent_id=parent_id, with_children=with_children)
        return [run.id for run in listing.page(filters, tenant="default", limit=10).runs]

    assert page() == [run.id for run in kin.store.recent()] == ["run-p"]
    assert (page("run-p"), page(first), page(second)) == ([second, first], [grandchild], [])
    everyone = [grandchild, second, first, "run-p"]
    assert page(with_children=True) == [run.id for run in kin.store.recent(with_children=True)] == everyone
    assert page("run-p", with_children=True) == [second, first]
    assert listing.page(Filters(parent_id="run-p"), tenant="other", limit=10).runs == []
    assert [run.id for run in kin.store.find(first, tenant="default")] == [first]


def test_a_sandbox_of_a_child_is_the_childs(kin: Kin, lease: Lease, clock) -> None:
    first, second = kin.begin(lease, "a", "b")
    kin.store.set_sandbox(kin.grant(first), {"id": "sbx-1", "provider": "local"})
    record = ControlRecord(kin.store.engine, clock)
    assert record.owners([first, second]) == {first: Owner(False, 1, "sbx-1"), second: Owner(False, 0, None)}
    kin.store.finish(lease, RunStatus.SUCCESS)
    assert record.owners([first]) == {first: Owner(True, 1, None)}


# At once


def test_of_many_that_begin_a_fan_out_at_once_one_does(kin: Kin, lease: Lease) -> None:
    def begin(number: int) -> list[str]:
        new = [NewRun(f"run-{number}-{name}", name, AGENT) for name in "abc"]
        return [run.id for run in kin.family.begin(lease, KEY, new, max_depth=1, max_runs=4)]

    answers = at_once(*[partial(begin, number) for number in range(8)])
    assert len(answers[0]) == 3
    assert answers == [answers[0]] * 8
    assert [run.id for run in kin.family.tree("run-p")] == answers[0]


def test_of_many_below_one_top_that_begin_at_once_no_more_do_than_may(kin: Kin, lease: Lease) -> None:
    leases = [kin.grant(child) for child in kin.begin(lease, *"abcdefgh")]
    answers = at_once(*[partial(kin.begin, one, "x", "y", max_runs=9 + 6) for one in leases])
    assert sum(isinstance(answer, list) for answer in answers) == 3
    assert len(kin.family.tree("run-p")) == 8 + 6
