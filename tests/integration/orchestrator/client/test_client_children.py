"""A run that fans out, by the client; each client the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Conflict
from orchestrator.runs.models import RunStatus

TASK = {
    "inputs": {"path": "repo"},
    "fan_out": {"items": ["a", "b"], "command": "test ${{ item }} = a && echo a > a.txt"},
    "verify": "cat a.txt",
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "there.txt").write_text("it was there")
    return tmp_path


def test_the_children_of_a_run_are_found_from_above_and_by_themselves(client: Any, repo: Path) -> None:
    run = client.runs.create(TASK, base_dir=repo)
    assert client.runs.join(run.id).status is RunStatus.SUCCESS

    first, second = children = client.runs.children(run.id)

    assert [(one.name, one.status, one.place) for one in children] == [
        ("a", RunStatus.SUCCESS, 0), ("b", RunStatus.ERROR, 1)
    ]  # fmt: skip
    assert {(one.parent_id, one.root_id, one.depth) for one in children} == {(run.id, run.id, 1)}
    assert client.runs.get(first.id) == first
    assert [one.id for one in client.runs.list(parent_id=run.id).items] == [second.id, first.id]
    assert [one.id for one in client.runs.iterate(parent_id=run.id, status=RunStatus.ERROR, page_size=1)] == [second.id]
    listed = [one.id for one in client.runs.list(limit=1000).items]
    assert (run.id in listed, first.id in listed) == (True, False)
    assert first.id in [one.id for one in client.runs.iterate(with_children=True, page_size=2)]
    spent = client.runs.spent(run.id)
    assert (spent.tokens, spent.cost_micros) == (0, 0)
    assert spent.sandbox_seconds > client.runs.spent(first.id).sandbox_seconds > 0
    with pytest.raises(Conflict, match=f"retry run {run.id}"):
        client.runs.retry(first.id)


def test_a_child_that_is_cancelled_does_not_stop_its_siblings(client: Any, repo: Path) -> None:
    waits = "until [ -e gone ]; do sleep 0.05; done"
    fan_out = {"items": ["a", "b"], "command": f"test ${{{{ item }}}} = a && echo a > a.txt || {waits}"}
    run = client.runs.create({"inputs": {"path": "repo"}, "fan_out": fan_out, "verify": "cat a.txt"}, base_dir=repo)

    ends = {}
    for event in client.runs.follow(run.id):
        if event.type == "fan_out.started":
            cancelled = event.data["children"][1]["run"]
        if event.type == "child.finished":
            ends[event.data["name"]] = event.data["status"]
            client.runs.cancel(cancelled)

    assert ends == {"a": "success", "b": "cancelled"}
    assert client.runs.get(run.id).status is RunStatus.SUCCESS
    assert client.runs.get(cancelled).status is RunStatus.CANCELLED
