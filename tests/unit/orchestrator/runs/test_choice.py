"""A run that may be on several providers goes where there is room, in its order, and never somewhere weaker by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orchestrator.policy import Policy
from orchestrator.runs.choice import Choices, asked_values
from orchestrator.runs.models import NewRun
from orchestrator.runs.store import Store
from tests.unit.orchestrator.runs.families import Kin
from tests.unit.orchestrator.runs.queueing import Scene

HANDLE = {"provider": "docker", "id": "sbx-0123456789abcdef"}


@pytest.fixture
def scene(store: Store, clock) -> Scene:
    made = Scene(store, clock)
    made.worker(20)
    return made


def ruled(scene: Scene, **caps: int | None) -> Scene:
    providers = {name: {"max_running": most} for name, most in caps.items()}
    return scene.with_policy(Policy.model_validate({"providers": providers}))


def submit(scene: Scene, run_id: str, *asked: str, **more: str) -> str | None:
    """Where the run is put down; None when it waits."""
    sandbox = {"provider": asked[0]} if len(asked) == 1 else {"providers": list(asked)}
    _, added = scene.queue.add(NewRun(run_id, "name", {"command": "x", "sandbox": {**sandbox, **more}}))
    return scene.store.get(run_id).provider if added.sends else None


def test_a_run_over_the_cap_waits_until_another_ends(scene: Scene) -> None:
    scene = ruled(scene, docker=1)
    assert [submit(scene, run_id, "docker") for run_id in ("run-a", "run-b")] == ["docker", None]
    scene.end("run-a")
    assert scene.look() == ["run-b"]


def test_a_run_over_the_cap_goes_to_the_next_that_its_task_lists(scene: Scene) -> None:
    scene = ruled(scene, docker=1, modal=1)
    placed = [submit(scene, f"run-{n}", "docker", "modal") for n in range(3)]
    assert placed == ["docker", "modal", None]
    assert submit(scene, "run-x", "docker") is None


def test_nothing_weaker_takes_the_place_of_a_full_one(scene: Scene) -> None:
    scene = ruled(scene, docker=1)
    assert submit(scene, "run-a", "docker", "local") == "docker"
    assert submit(scene, "run-b", "docker", "local") is None
    assert submit(scene, "run-c", "docker", "local", weaker_isolation="allow") == "local"


def test_a_provider_that_nobody_here_knows_is_as_weak_as_any_and_nobody_takes_its_place(scene: Scene) -> None:
    scene = ruled(scene, docker=0, theirs=0, local=0)
    assert submit(scene, "run-a", "docker", "others") is None
    assert submit(scene, "run-b", "theirs", "modal") is None
    assert submit(scene, "run-c", "local", "others") == "others"


def test_auto_stands_for_what_the_policy_lists_in_its_order(scene: Scene) -> None:
    scene = ruled(scene, docker=1, modal=None, local=None)
    assert [submit(scene, f"run-{n}", "auto") for n in range(2)] == ["docker", "modal"]


def test_auto_without_a_list_counts_as_docker_until_its_worker_knows_better(scene: Scene) -> None:
    assert submit(scene, "run-a", "auto") == "docker"


def test_a_run_waits_on_the_queue_of_the_provider_that_it_is_put_down_for(scene: Scene) -> None:
    rules = {"providers": {"docker": {"max_running": 0}, "modal": {}}, "routes": [{"provider": "modal", "queue": "cloud"}]}
    scene = scene.with_policy(Policy.model_validate(rules))
    scene.worker(2, "h:1:cloud", queues=["cloud"])
    _, added = scene.queue.add(NewRun("run-a", "name", {"command": "x", "sandbox": {"providers": ["docker", "modal"]}}))
    assert [(send.run_id, send.queue) for send in added.sends] == [("run-a", "cloud")]


def test_a_run_that_waits_for_a_person_keeps_its_place_and_gets_on_in_it(scene: Scene) -> None:
    scene = ruled(scene, docker=1)
    submit(scene, "run-a", "docker", "local")
    lease = scene.begin("run-a")
    scene.store.set_sandbox(lease, HANDLE)
    scene.store.interrupt(lease, {"actions": []}, scene.clock() + timedelta(seconds=60))
    assert submit(scene, "run-b", "docker") is None
    scene.store.decide("run-a", {"decisions": []})
    assert scene.look() == ["run-a"]
    assert scene.store.get("run-a").provider == "docker"
    scene.end("run-a")
    assert scene.look() == ["run-b"]


def test_a_worker_moves_its_run_to_where_there_is_room(scene: Scene) -> None:
    scene = ruled(scene, docker=1, modal=1, daytona=None)
    submit(scene, "run-a", "docker")
    submit(scene, "run-b", "modal", "docker", "daytona")
    choices, lease = Choices(scene.store._engine, scene.queue._policy, scene.clock), scene.begin("run-b")
    assert not choices.move(lease, "docker")
    assert scene.store.get("run-b").provider == "modal"
    assert choices.move(lease, "modal")
    assert choices.move(lease, "daytona")
    assert scene.store.get("run-b").provider == "daytona"
    assert submit(scene, "run-c", "modal") == "modal"


def test_a_child_counts_where_its_parents_sandbox_is(scene: Scene, store: Store, clock) -> None:
    policy = Policy.model_validate({"providers": {"modal": {"max_running": 2}}})
    kin = Kin(store, clock, policy)
    top = kin.top()
    assert Choices(store._engine, policy, clock).move(top, "modal")
    spec = {"command": "x", "sandbox": {"providers": ["docker", "modal"]}}
    children = kin.begin(top, *"abc", spec=spec)
    granted = [run_id for run_id in children if kin.granting.grant(run_id, "w")]
    assert granted == children[:1]
    assert store.get(granted[0]).provider == "modal"


@pytest.mark.parametrize(
    ("sandbox", "provider", "choice"),
    [
        (None, "local", None),
        ({"provider": "docker", "providers": None}, "docker", None),
        ({"provider": None, "providers": ["docker"]}, "docker", None),
        ({"provider": "auto"}, "auto", {"asked": ["auto"], "weaker": False}),
        ({"providers": ["a", "b"], "weaker_isolation": "allow"}, "a", {"asked": ["a", "b"], "weaker": True}),
    ],
)
def test_what_a_task_asks_is_noted_with_its_run(sandbox: object, provider: str, choice: object) -> None:
    assert asked_values({"sandbox": sandbox}) == {"provider": provider, "choice": choice}
