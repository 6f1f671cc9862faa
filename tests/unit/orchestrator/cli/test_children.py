"""The tree of the runs below a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.cli.children import MAX_SHOWN, tree_rows
from orchestrator.runs.models import Run, RunError

Child = Callable[..., Run]


@pytest.fixture
def child(a_run: Callable[..., Run]) -> Child:
    """`child(name, parent, status)`: a run below another one, which is called `run-NAME`."""

    def made(name: str, parent: Run, status: str = "success", *, fan_out: str = "1-fan-out") -> Run:
        run = a_run(status, RunError("task", "x") if status == "error" else None)
        return replace(run, id=f"run-{name}", name=name, parent_id=parent.id, depth=parent.depth + 1, fan_out=fan_out)

    return made


def test_each_run_stands_below_its_parent_in_the_order_of_the_tasks(a_run: Callable[..., Run], child: Child) -> None:
    run = a_run()
    a, b = child("a", run), child("b", run, "error")
    below = [child("x", a), child("y", b), child("longer", a, "cancelled")]

    rows = tree_rows(run, [a, b, *below])

    assert [label for label, _ in rows] == ["tree", "", "", "", ""]
    assert [text for _, text in rows] == [
        "a         success    3.0 s  run-a",
        "  x       success    3.0 s  run-x",
        "  longer  cancelled  3.0 s  run-longer",
        "b         error      3.0 s  run-b",
        "  y       success    3.0 s  run-y",
    ]


def test_in_the_tree_of_a_child_its_own_children_are_not_indented(a_run: Callable[..., Run], child: Child) -> None:
    parent = child("a", a_run())

    assert tree_rows(parent, [child("x", parent)]) == [("tree", "x  success  3.0 s  run-x")]


def test_a_child_that_goes_on_has_taken_no_time_yet(a_run: Callable[..., Run], child: Child) -> None:
    run = a_run()
    going_on = replace(child("a", run, "running"), finished_at=None)

    assert tree_rows(run, [going_on, child("b", run)])[0] == ("tree", "a  running         run-a")


def test_children_of_an_attempt_that_was_begun_again_are_told_apart(a_run: Callable[..., Run], child: Child) -> None:
    run = a_run()
    earlier, now = child("old", run, "error", fan_out="1-fan-out"), child("new", run, fan_out="2-fan-out")

    rows = tree_rows(run, [earlier, now])

    assert rows[0][1].endswith("run-old  of an earlier attempt")
    assert rows[1][1].endswith("run-new")


def test_a_large_tree_is_cut(a_run: Callable[..., Run], child: Child) -> None:
    run = a_run()

    rows = tree_rows(run, [child(str(number), run) for number in range(MAX_SHOWN + 7)])

    assert len(rows) == MAX_SHOWN + 1
    assert rows[-1] == ("", f"and 7 more: fanfold runs ls --parent {run.id} --all")


def test_no_terminal_sequence_in_a_name_gets_through(a_run: Callable[..., Run], child: Child) -> None:
    run = a_run()

    assert tree_rows(run, [child("x\x1b[2J\x07", run)])[0][1].startswith("x  success")


def test_a_run_without_children_has_no_tree(a_run: Callable[..., Run]) -> None:
    assert tree_rows(a_run(), []) == []
