"""A child begins when there is room for it, and one of a fan-out always may; what runs counts for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

import pytest

from orchestrator.policy import Policy
from orchestrator.runs.leases import LEASE_TTL
from orchestrator.runs.models import AttemptStatus, Lease, RunStatus
from orchestrator.runs.store import Store
from tests.unit.orchestrator.runs.families import AGENT, Kin
from tests.unit.orchestrator.runs.queueing import Scene
from tests.unit.orchestrator.runs.test_races import at_once

DOCKER = {**AGENT, "sandbox": {"provider": "docker"}}


def caps(**caps: Mapping[str, int]) -> Policy:
    return Policy.model_validate({"caps": caps})


@pytest.fixture
def kin(store: Store, clock) -> Kin:
    return Kin(store, clock)


def begun(kin: Kin, children: list[str]) -> list[str]:
    """Those of these children that may begin now."""
    return [child for child in children if kin.granting.grant(child, "w")]


# How many


def test_without_a_cap_every_child_may_begin(kin: Kin) -> None:
    children = kin.begin(kin.top(), *"abcdef")
    assert begun(kin, children) == children


def test_a_child_that_may_begin_is_claimed(kin: Kin) -> None:
    (child,) = kin.begin(kin.top(), "a")
    lease = kin.grant(child)
    run = kin.run(child)
    assert (lease.run_id, lease.worker) == (child, "w")
    assert (run.status, run.worker, run.attempt, run.epoch) == (RunStatus.RUNNING, "w", 1, 1)
    assert run.started_at is not None
    kin.store.heartbeat(lease)
    assert [one.status for one in kin.store.attempts(child)] == [AttemptStatus.RUNNING]


def test_children_begin_up_to_the_cap_of_their_provider_and_then_as_others_end(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"docker": 3}))
    children = kin.begin(kin.top(), *"abcde", spec=DOCKER)
    assert begun(kin, children) == children[:3]
    assert begun(kin, children) == []
    store.finish(Lease(children[1], 1, "w"), RunStatus.SUCCESS)
    assert begun(kin, children) == children[3:4]


def test_children_have_the_labels_of_their_parent_and_share_its_cap(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(label={"team=ml": 3}))
    children = kin.begin(kin.top(labels={"team": "ml"}), *"abc")
    assert begun(kin, children) == children[:2]
    others = kin.begin(kin.top("run-q", labels={"team": "web"}), *"abc")
    assert begun(kin, others) == others


def test_children_begin_as_far_as_their_tenant_may_have_runs(kin: Kin) -> None:
    Scene(kin.store, kin.clock).tenant("acme", max_running=3)
    children = kin.begin(kin.top(tenant="acme"), *"abcd")
    assert begun(kin, children) == children[:2]
    lease = kin.top("run-q", tenant="other")
    assert len(begun(kin, kin.begin(lease, *"abcd"))) == 4


def test_one_child_of_a_run_may_always_begin_however_little_room_there_is(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"local": 0}))
    lease = kin.top()
    children = [*kin.begin(lease, "a", "b"), *kin.begin(lease, "c", key="1:other")]
    for child in children:
        leases = {one: kin.granting.grant(one, "w") for one in children}
        assert [one for one, lease in leases.items() if lease] == [child]
        kin.store.finish(leases[child] or lease, RunStatus.SUCCESS)


def test_fan_outs_inside_of_each_other_move_on_without_any_room(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"local": 1}))
    ended: list[str] = []

    def work(lease: Lease, depth: int) -> None:
        for child in kin.begin(lease, "a", "b") if depth else []:
            work(kin.grant(child), depth - 1)
        kin.store.finish(lease, RunStatus.SUCCESS)
        ended.append(lease.run_id)

    work(kin.top(), 3)
    assert len(ended) == 1 + 2 + 4 + 8
    assert {run.status for run in kin.family.tree("run-p")} == {RunStatus.SUCCESS}


# What others see of it


def test_children_that_run_count_for_the_runs_that_wait(store: Store, clock) -> None:
    policy = caps(provider={"docker": 2})
    kin, scene = Kin(store, clock, policy), Scene(store, clock, policy)
    scene.worker(50)
    children = kin.begin(kin.top(), "a", "b", "c", spec=DOCKER)
    assert begun(kin, children[:1]) == children[:1]
    assert scene.submit("run-d0", provider="docker")
    assert not scene.submit("run-d1", provider="docker")
    assert begun(kin, children) == []
    scene.end("run-d0")
    assert begun(kin, children) == children[1:2]
    assert scene.look() == []


def test_children_count_for_their_tenant_and_take_no_place_of_a_worker(kin: Kin) -> None:
    scene = Scene(kin.store, kin.clock)
    scene.tenant("acme", max_running=3)
    scene.worker(1)
    begun(kin, kin.begin(kin.top(tenant="acme"), "a", "b"))
    assert not scene.submit("run-x", "acme")
    assert scene.submit("run-y", "other")


def test_the_caps_hold_while_no_worker_is_heard_of(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"docker": 1}))
    children = kin.begin(kin.top(), "a", "b", spec=DOCKER)
    assert begun(kin, children) == children[:1]


# Again


def test_a_child_that_was_handed_over_counts_no_more_and_is_granted_again(store: Store, clock) -> None:
    policy = caps(provider={"docker": 1})
    kin, scene = Kin(store, clock, policy), Scene(store, clock, policy)
    (first,) = kin.begin(kin.top(), "a", spec=DOCKER)
    lease = kin.grant(first)
    kin.store.set_sandbox(lease, {"id": "sbx-1", "provider": "docker"}, ready=True)
    scene.worker(50)
    assert not scene.submit("run-d", provider="docker")
    kin.store.release(lease)
    assert scene.look() == ["run-d"]
    kin.grant(first)
    assert (kin.run(first).attempt, kin.run(first).epoch, kin.run(first).lost) == (2, 1, 0)


def test_a_child_whose_worker_died_goes_on_where_its_parent_does(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"docker": 1}))
    first, second = kin.begin(kin.top(), "a", "b", spec=DOCKER)
    lost = kin.grant(first)
    assert kin.granting.grant(first, "w") is None
    clock.advance(LEASE_TTL + 1)
    assert kin.granting.grant(first, "w2") is None
    assert kin.store.claim("run-p", "w2") is not None
    assert kin.granting.grant(second, "w2") is None
    assert kin.granting.grant(first, "w") is None
    again = kin.grant(first, "w2")
    assert again.token > lost.token
    assert [one.status for one in kin.store.attempts(first)] == [AttemptStatus.LOST, AttemptStatus.RUNNING]
    assert kin.run(first).lost == 1


def test_a_child_waits_for_a_person_and_then_for_room(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"docker": 1}))
    first, second = kin.begin(kin.top(), "a", "b", spec=DOCKER)
    kin.store.interrupt(kin.grant(first), {"actions": []}, clock() + timedelta(seconds=60))
    assert begun(kin, [first, second]) == [second]
    kin.store.decide(first, {"decisions": []})
    assert begun(kin, [first]) == []
    kin.store.finish(Lease(second, 1, "w"), RunStatus.SUCCESS)
    assert begun(kin, [first]) == [first]


# Who may not


def test_nobody_is_granted_what_is_not_a_child_of_a_run_of_its_own(kin: Kin) -> None:
    lease = kin.top()
    first, over = kin.begin(lease, "a", "b")
    kin.end(over)
    assert kin.granting.grant(first, "w2") is None
    assert [kin.granting.grant(run_id, "w") for run_id in (over, "run-p", "run-none")] == [None] * 3
    kin.store.release(lease)
    assert kin.granting.grant(first, "w") is None


# At once


def test_however_many_ask_at_once_no_cap_is_passed_and_a_child_has_one_worker(store: Store, clock) -> None:
    kin = Kin(store, clock, caps(provider={"docker": 3}))
    children = kin.begin(kin.top(), *"abcdefgh", spec=DOCKER)
    leases = [one for one in at_once(*[partial(kin.granting.grant, child, "w") for child in children]) if one]
    assert len(leases) == 3
    kin.store.finish(leases[0], RunStatus.SUCCESS)
    (waits, *_) = [child for child in children if kin.status(child) is RunStatus.PENDING]
    assert len([one for one in at_once(*[partial(kin.granting.grant, waits, "w") for _ in range(8)]) if one]) == 1
