"""Runs wait until it is their turn, and go when it is."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

import pytest

from orchestrator.errors import QuotaExceeded
from orchestrator.policy import Policy
from orchestrator.runs.dispatching import AT_SUBMIT, Send
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.reading import WORKER_TTL
from orchestrator.runs.store import Store
from orchestrator.runs.threads import Threads
from orchestrator.runs.waiting import DEEP, FIRST, HEAD
from tests.unit.orchestrator.runs.queueing import Scene


@pytest.fixture
def scene(store: Store, clock) -> Scene:
    return Scene(store, clock)


# How many

def test_without_a_worker_runs_wait_and_the_first_worker_gets_them(scene: Scene) -> None:
    assert not scene.submit("run-a")
    assert scene.look() == []
    assert scene.store.claim("run-a", "w") is None
    scene.worker(2)
    assert scene.look() == ["run-a"]
    scene.begin("run-a")


def test_no_more_is_sent_than_the_workers_execute_and_one_more_for_each(scene: Scene) -> None:
    scene.worker(2, "h:1:a")
    scene.worker(1, "h:2:b")
    sent = [scene.submit(f"run-{n}") for n in range(7)]
    assert sent == [True] * 5 + [False] * 2
    assert scene.look() == []
    scene.begin("run-0")
    assert scene.look() == []
    scene.end("run-1")
    assert scene.look() == ["run-5"]


def test_a_worker_that_is_silent_takes_nothing(scene: Scene) -> None:
    scene.worker(2)
    scene.clock.advance(WORKER_TTL + 1)
    assert not scene.submit("run-a")


def test_a_run_is_sent_once(scene: Scene) -> None:
    scene.worker(5)
    assert scene.submit("run-a")
    assert scene.look() == []


def test_a_run_that_was_cancelled_while_it_waited_is_not_sent(scene: Scene) -> None:
    scene.submit("run-a")
    scene.store.request_cancel("run-a")
    scene.worker(5)
    assert scene.look() == []
    assert scene.store.get("run-a").status is RunStatus.CANCELLED


def test_many_that_are_submitted_together_wait_in_their_order(scene: Scene) -> None:
    new = [NewRun(f"run-{n:04}", "name", {}) for n in range(1200)]
    scene.worker(999)
    added = scene.queue.add_many(new)
    assert [send.run_id for send in added.sends] == [f"run-{n:04}" for n in range(AT_SUBMIT)]
    assert added.waiting
    rest = [run_id for _ in range(12) for run_id in scene.look()]
    assert rest == [f"run-{n:04}" for n in range(AT_SUBMIT, 1000)]


def test_a_run_that_goes_back_to_the_queue_is_sent_again(scene: Scene) -> None:
    scene.worker(1)
    scene.submit("run-a")
    lease = scene.begin("run-a")
    scene.store.interrupt(lease, {"actions": []}, scene.clock() + timedelta(seconds=60))
    assert scene.look() == []
    scene.store.decide("run-a", {"decisions": []})
    assert scene.look() == ["run-a"]


# In which order

def test_of_a_tenants_runs_the_highest_priority_goes_first_and_then_the_oldest(scene: Scene) -> None:
    for name, priority in (("old", 0), ("new", 0), ("low", -5), ("high", 9), ("high2", 9)):
        scene.submit(f"run-{name}", priority=priority)
    scene.worker(10)
    assert scene.look() == ["run-high", "run-high2", "run-old", "run-new", "run-low"]


def test_a_tenant_with_many_runs_does_not_delay_anothers_first(scene: Scene) -> None:
    scene.queue.add_many([NewRun(f"run-{n:04}", "name", {}, "big") for n in range(2000)])
    scene.worker(9)
    scene.look(5)
    assert scene.submit("run-small", "small")
    assert scene.sent[5] == "run-small"


def test_tenants_take_turns(scene: Scene) -> None:
    for tenant in ("a", "b", "c"):
        for n in range(4):
            scene.submit(f"run-{tenant}{n}", tenant)
    scene.worker(20)
    assert scene.look() == [f"run-{tenant}{n}" for n in range(4) for tenant in ("a", "b", "c")]


def test_a_tenant_gets_its_weight(scene: Scene) -> None:
    for tenant, weight in (("heavy", 3.0), ("light", 1.0)):
        scene.tenant(tenant, weight=weight)
        scene.queue.add_many([NewRun(f"run-{tenant}-{n:02}", "name", {}, tenant) for n in range(60)])
    scene.worker(99)
    sent = scene.look(40)
    assert abs(sum("heavy" in run_id for run_id in sent) - 30) <= 1


def test_who_was_idle_has_saved_nothing_up(scene: Scene) -> None:
    scene.worker(500)
    for n in range(50):
        scene.submit(f"run-busy-{n}", "busy")
    scene.clock.advance(WORKER_TTL + 1)  # nobody takes more
    for tenant in ("busy", "late"):
        scene.queue.add_many([NewRun(f"run-{tenant}-{n:03}", "name", {}, tenant) for n in range(100, 130)])
    scene.worker(500)
    sent = scene.look(20)
    assert abs(sum("late" in run_id for run_id in sent) - 10) <= 1


# What holds runs

def test_a_capped_tenant_holds_up_nobody_else(scene: Scene) -> None:
    scene.tenant("capped", max_running=2)
    for n in range(5):
        scene.submit(f"run-c{n}", "capped")
    for n in range(3):
        scene.submit(f"run-o{n}", "other")
    scene.worker(20)
    assert sorted(scene.look()) == ["run-c0", "run-c1", "run-o0", "run-o1", "run-o2"]
    scene.begin("run-c0")
    assert scene.look() == []
    scene.end("run-c1")
    assert scene.look() == ["run-c2"]


def test_a_capped_provider_holds_up_no_other(scene: Scene) -> None:
    scene = scene.with_policy(Policy.model_validate({"caps": {"provider": {"docker": 1}}}))
    scene.submit("run-d0", provider="docker")
    scene.submit("run-d1", provider="docker")
    scene.submit("run-l0")
    scene.submit("run-d2", "other", provider="docker")
    scene.submit("run-l1", "other")
    scene.worker(20)
    assert sorted(scene.look()) == ["run-d0", "run-l0", "run-l1"]
    scene.end("run-d0")
    assert len(scene.look()) == 1


def test_a_capped_label_holds_up_no_other(scene: Scene) -> None:
    scene = scene.with_policy(Policy.model_validate({"caps": {"label": {"team=ml": 1, "gpu=yes": 1}}}))
    scene.worker(20)
    assert scene.submit("run-a", labels={"team": "ml"})
    assert not scene.submit("run-b", labels={"team": "ml", "gpu": "yes"})
    assert scene.submit("run-c", labels={"team": "web"})
    assert scene.submit("run-d", labels={"gpu": "yes"})
    scene.end("run-a")
    assert scene.look() == []
    scene.end("run-d")
    assert scene.look() == ["run-b"]


def test_a_cap_of_the_policy_for_tenants_yields_to_a_tenants_own(scene: Scene) -> None:
    scene = scene.with_policy(Policy.model_validate({"tenants": {"max_running": 1}}))
    scene.tenant("own", max_running=2)
    scene.worker(20)
    assert [scene.submit(f"run-o{n}", "own") for n in range(3)] == [True, True, False]
    assert [scene.submit(f"run-p{n}", "plain") for n in range(2)] == [True, False]


def test_runs_are_held_until_their_moment(scene: Scene) -> None:
    scene.worker(20)
    assert not scene.submit("run-later", ready_at=scene.clock() + timedelta(seconds=5))
    assert scene.submit("run-now")
    assert scene.look() == []
    scene.clock.advance(6)
    assert scene.look() == ["run-later"]


def test_of_a_thread_one_run_goes_at_a_time_in_their_order(scene: Scene) -> None:
    Threads(scene.store._engine).add("thr-1", {}, tenant="default")
    scene.worker(20)
    assert scene.submit("run-b", thread_id="thr-1")
    assert not scene.submit("run-a", thread_id="thr-1", priority=5)
    assert not scene.submit("run-c", thread_id="thr-1")
    scene.end("run-b")
    assert scene.look() == ["run-a"]
    scene.end("run-a")
    assert scene.look() == ["run-c"]


def test_what_can_go_is_found_behind_any_number_that_cannot(scene: Scene) -> None:
    scene = scene.with_policy(Policy.model_validate({"caps": {"provider": {"docker": 0}}}))
    many = FIRST + HEAD + 2 * DEEP + 7
    docker = {"sandbox": {"provider": "docker"}}
    scene.queue.add_many([NewRun(f"run-d{n:05}", "name", docker) for n in range(many)])
    scene.submit("run-last")
    scene.worker(20)
    looks = [scene.look() for _ in range(3)]
    assert looks == [[], [], ["run-last"]]
    assert scene.look() == []


# Queues

ROUTES = Policy.model_validate({"routes": [{"provider": "docker", "queue": "gpu"}]})


def test_a_run_goes_on_the_queue_of_its_route(scene: Scene) -> None:
    scene = scene.with_policy(ROUTES)
    scene.submit("run-g", provider="docker")
    scene.submit("run-f")
    scene.worker(5, queues=["fanfold", "gpu"])
    assert set(scene.queue.dispatch()) == {Send("run-g", "gpu"), Send("run-f", "fanfold")}
    assert scene.queue.queue_of(["run-g", "run-none"]) == [Send("run-g", "gpu")]


def test_runs_for_which_there_is_no_worker_take_nobodys_place(scene: Scene) -> None:
    scene = scene.with_policy(ROUTES)
    scene.worker(1)
    for n in range(5):
        assert not scene.submit(f"run-g{n}", provider="docker")
    assert scene.submit("run-f0")
    assert scene.submit("run-f1")
    assert not scene.submit("run-f2")
    scene.worker(1, "host:2:abc", ["gpu"])
    assert scene.look() == ["run-g0", "run-g1"]


# Limits at the door

def test_a_full_queue_takes_no_more_and_says_when_to_try_again(scene: Scene) -> None:
    scene.tenant("small", max_queued=2)
    scene.submit("run-a", "small")
    with pytest.raises(QuotaExceeded, match="1 runs of 'small' wait, and 2 may: submit 2 more when others have begun") as told:
        scene.queue.add_many([NewRun(name, "name", {}, "small") for name in ("run-b", "run-c")])
    assert told.value.retry_after > 0
    scene.submit("run-b", "small")
    with pytest.raises(QuotaExceeded):
        scene.submit("run-c", "small")
    assert [run.id for run in scene.store.recent(tenant="small")] == ["run-b", "run-a"]
    scene.worker(1)
    scene.look(1)
    scene.submit("run-c", "small")


def test_the_queue_is_as_long_for_others(scene: Scene) -> None:
    scene = scene.with_policy(Policy.model_validate({"tenants": {"max_queued": 1}}))
    for tenant in ("a", "b"):
        scene.submit(f"run-{tenant}", tenant)
    with pytest.raises(QuotaExceeded):
        scene.submit("run-c", "a")


def test_the_turn_of_a_tenant_does_not_depend_on_its_name(scene: Scene) -> None:
    for tenant in ("zz", "a-b", "a", "b1"):
        scene.submit(f"run-{tenant}-0", tenant)
        scene.submit(f"run-{tenant}-1", tenant)
    scene.worker(20)
    sent = scene.look()
    assert sorted(islice(sent, 4)) == ["run-a-0", "run-a-b-0", "run-b1-0", "run-zz-0"]
