"""Who sends what waits: the leader always, and everybody who has a reason."""

from __future__ import annotations

import pytest

from orchestrator.controller.dispatch import Dispatcher
from orchestrator.errors import InfrastructureError
from orchestrator.policy import Policy
from orchestrator.runs.database import now
from orchestrator.runs.dispatching import AT_ONCE, Dispatching, Send
from orchestrator.runs.models import NewRun, WorkerInfo
from orchestrator.runs.store import Store


class Scene:
    """A dispatcher that looks when it is told to."""

    def __init__(self, store: Store) -> None:
        self.sent: list[str] = []
        self.leads = False
        self.broker_is_there = True
        queue = Dispatching(store._engine, Policy())
        self.dispatcher = Dispatcher(queue, self._send, leads=lambda: self.leads, ready=self._ready)

    def _ready(self) -> None:
        if not self.broker_is_there:
            raise InfrastructureError("the broker does not answer")

    def _send(self, send: Send) -> None:
        self.sent.append(send.run_id)

    def look(self) -> list[str]:
        self.sent.clear()
        self.dispatcher.look()
        return list(self.sent)


@pytest.fixture
def scene(store: Store) -> Scene:
    moment = now()
    store.worker_alive(WorkerInfo("host:1:abc", "host", 1, 999, moment, moment))
    return Scene(store)


def submit(store: Store, *names: str) -> None:
    store.add_many([NewRun(name, "name", {}) for name in names])


def test_whoever_comes_up_looks_once_and_then_only_the_leader_does(store: Store, scene: Scene) -> None:
    submit(store, "run-a")
    assert scene.look() == ["run-a"]
    submit(store, "run-b")
    assert scene.look() == []
    scene.leads = True
    assert scene.look() == ["run-b"]


def test_who_is_asked_looks_once_whoever_leads(store: Store, scene: Scene) -> None:
    scene.look()
    submit(store, "run-a")
    scene.dispatcher.ask()
    assert scene.look() == ["run-a"]
    submit(store, "run-b")
    assert scene.look() == []


def test_one_look_sends_all_that_can_go(store: Store, scene: Scene) -> None:
    names = [f"run-{n:04}" for n in range(2 * AT_ONCE + 3)]
    submit(store, *names)
    assert scene.look() == names


def test_without_a_broker_nothing_is_taken_out_of_the_queue(store: Store, scene: Scene) -> None:
    submit(store, "run-a")
    scene.broker_is_there = False
    with pytest.raises(InfrastructureError):
        scene.look()
    scene.broker_is_there, scene.leads = True, True
    assert scene.look() == ["run-a"]
