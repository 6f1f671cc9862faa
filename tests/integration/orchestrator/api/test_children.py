"""The runs below a run, over HTTP: found from above and by themselves, stopped one by one, and never had again alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from orchestrator.runs.family import Family
from orchestrator.runs.granting import Granting
from orchestrator.runs.models import Lease, ModelUsage, NewRun, RunStatus
from orchestrator.runs.store import Store, new_run_id
from orchestrator.service import Service

AGENT: dict[str, Any] = {"agent": {"prompt": "x"}}
WORKER = "w"
USED = {"calls": 1, "input_tokens": 9, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0}


class Tree:
    """A run with two children, the first of which has one; the worker of all is somebody who is told of nothing."""

    def __init__(self, service: Service) -> None:
        self.store, self._family = Store(service._of.engine), Family(service._of.engine)
        self._granting = Granting(service._of.engine, service._of.policy)
        self.top = self.store.add(NewRun(new_run_id(), "top", AGENT)).id
        lease = self.store.claim(self.top, WORKER)
        assert lease is not None
        self.leases = {self.top: lease}
        self.first, self.second = self.begin(self.top, "a", "b")
        (self.below,) = self.begin(self.first, "c")

    def begin(self, run_id: str, *names: str) -> list[str]:
        """Fan out; the ids of the children."""
        children = [NewRun(new_run_id(), name, AGENT) for name in names]
        begun = self._family.begin(self.lease(run_id), "1-fan-out", children, max_depth=3, max_runs=100)
        return [run.id for run in begun]

    def lease(self, run_id: str) -> Lease:
        """That of a run which has begun, or begins now."""
        if run_id not in self.leases:
            granted = self._granting.grant(run_id, WORKER)
            assert granted is not None
            self.leases[run_id] = granted
        return self.leases[run_id]

    def end(self, run_id: str) -> None:
        """Let a run succeed."""
        self.store.finish(self.lease(run_id), RunStatus.SUCCESS)


@pytest.fixture
def tree(service: Service) -> Iterator[Tree]:
    made = Tree(service)
    yield made
    made.store.request_cancel(made.top)
    if not made.store.get(made.top).status.terminal:
        made.store.finish(made.leases[made.top], RunStatus.CANCELLED)


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["items"]]


def test_all_runs_below_a_run_say_whose_they_are(client: httpx.Client, tree: Tree) -> None:
    found = client.get(f"/v1/runs/{tree.top}/children").json()["items"]
    fields = ("id", "parent_id", "root_id", "depth", "fan_out", "place")
    assert [tuple(one[name] for name in fields) for one in found] == [
        (tree.first, tree.top, tree.top, 1, "1-fan-out", 0),
        (tree.second, tree.top, tree.top, 1, "1-fan-out", 1),
        (tree.below, tree.first, tree.top, 2, "1-fan-out", 0),
    ]
    assert ids(client.get(f"/v1/runs/{tree.first}/children")) == [tree.below]
    assert ids(client.get(f"/v1/runs/{tree.below}/children")) == []
    assert client.get(f"/v1/runs/{tree.first}").json() == found[0]
    top = client.get(f"/v1/runs/{tree.top}").json()
    assert [top[name] for name in fields[1:]] == [None, None, 0, None, None]


def test_children_are_listed_when_they_are_asked_for(client: httpx.Client, tree: Tree) -> None:
    everyone = [tree.below, tree.second, tree.first, tree.top]
    assert ids(client.get("/v1/runs"))[:1] == [tree.top]
    assert ids(client.get("/v1/runs", params={"with_children": True}))[:4] == everyone
    assert ids(client.get("/v1/runs", params={"parent_id": tree.top})) == [tree.second, tree.first]
    assert ids(client.get("/v1/runs", params={"parent_id": tree.top, "status": "pending"})) == [tree.second]
    page = client.get("/v1/runs", params={"parent_id": tree.top, "limit": 1}).json()
    assert ids(client.get("/v1/runs", params={"parent_id": tree.top, "cursor": page["next_cursor"]})) == [tree.first]
    assert client.get("/v1/runs", params={"parent_id": tree.top[:8]}).status_code == 422


def test_usage_is_the_runs_own_and_with_all_below_it(client: httpx.Client, tree: Tree) -> None:
    for run_id, cost in ((tree.top, 5), (tree.first, 3), (tree.below, 1)):
        used = ModelUsage(attempt=1, agent="", model="a:b", cost_micros=cost, **USED)
        tree.store.add_usage(tree.lease(run_id), 1, [used])
    usage = client.get(f"/v1/runs/{tree.first}/usage").json()
    assert [one["cost_micros"] for one in usage["items"]] == [3]
    assert usage["with_children"] == {"tokens": 20, "cost_micros": 4, "sandbox_seconds": 0.0}


def test_a_child_is_cancelled_alone(client: httpx.Client, tree: Tree) -> None:
    answer = client.post(f"/v1/runs/{tree.second}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    assert client.get(f"/v1/runs/{tree.second}/join", params={"timeout": 30}).json()["status"] == "cancelled"
    asked = {run_id: tree.store.cancel_requested(run_id) for run_id in (tree.top, tree.first, tree.below)}
    assert not any(asked.values())
    assert {tree.store.get(run_id).status for run_id in (tree.top, tree.first)} == {RunStatus.RUNNING}


def test_a_child_is_not_had_again_without_its_parent(client: httpx.Client, tree: Tree) -> None:
    tree.end(tree.below)
    answer = client.post(f"/v1/runs/{tree.below}/retry")
    assert answer.status_code == 409
    assert answer.json()["detail"] == (
        f"run {tree.below} is a child of run {tree.first}, and began with its files: retry run {tree.top}"
    )


def test_a_child_asks_nobody(client: httpx.Client, tree: Tree) -> None:
    answer = client.post(f"/v1/runs/{tree.first}/decide", json={"decisions": [{"type": "approve"}]})
    assert (answer.status_code, "asks for no decision" in answer.json()["detail"]) == (409, True)
