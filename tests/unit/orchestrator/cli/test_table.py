"""Lists and single runs, printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from orchestrator.cli import summary
from orchestrator.cli.children import Below
from orchestrator.cli.show import show_run
from orchestrator.cli.summary import Kept
from orchestrator.cli.table import columns
from orchestrator.cli.tally import Tally
from orchestrator.errors import InfrastructureError
from orchestrator.runs.models import Artifact, Attempt, AttemptStatus, Event, ModelUsage, Run, RunError
from orchestrator.runs.spent import Spent
from orchestrator.spec import RunSpec


def kept(tmp_path: Path, name: str, content: bytes) -> Kept:
    path = tmp_path / name
    path.write_bytes(content)
    return Kept(Artifact("run-0123456789ab", name, len(content), "", datetime.now(UTC)), path, partial(path.open, "rb"))


def test_columns_are_aligned_and_nothing_is_cut() -> None:
    assert columns([("RUN", "STATUS"), ("run-1", "success"), ("r", "error")]) == "RUN    STATUS\nrun-1  success\nr      error\n"


def test_statuses_are_coloured_on_a_terminal() -> None:
    assert "\x1b[31merror" in columns([("S",), ("error",)], colours=True)


def test_a_run_is_shown_with_its_attempts_and_artifacts(tmp_path: Path, a_run: Callable[..., Run]) -> None:
    run = a_run("error", RunError("task", "the command ended with exit code 2\nsecond line"))
    began = run.created_at
    attempts = [
        Attempt(run.id, 1, "here", AttemptStatus.LOST, began, began + timedelta(seconds=2), sandbox_seconds=1.5),
        Attempt(run.id, 2, "there", AttemptStatus.ERROR, began, began + timedelta(seconds=1), RunError("task", "no\nluck")),
    ]
    usage = [
        ModelUsage(1, "", "anthropic:claude", 2, 1000, 20, 300, 0, 1500),
        ModelUsage(2, "", "anthropic:claude", 1, 500, 10, 0, 0, 500),
        ModelUsage(2, "finder", "fake", 1, 7, 3, 0, 0, None),
    ]
    file = io.StringIO()

    show_run(file, run, attempts, usage, [], [kept(tmp_path, "command.log", b"x" * 2048)])

    shown = file.getvalue()
    assert "status     error\n" in shown
    assert "reason     the command ended with exit code 2\n           second line\n" in shown
    assert "does       make test\n" in shown
    assert "took 3.0 s\n" in shown
    assert f"artifacts  {tmp_path / 'command.log'}  2.0 KiB\n" in shown
    assert " on here, lost after 2.0 s\n           2 at " in shown
    assert " on there, error after 1.0 s: no luck\n" in shown
    assert "used       agent, anthropic:claude: 3 calls, 1,500 tokens in (300 from the cache), 30 out\n" in shown
    assert "           finder, fake: 1 call, 7 tokens in, 3 out\n" in shown
    assert "           1.5 s of a sandbox\n           $0.0020, without the models that have no price\n" in shown


@pytest.mark.parametrize(
    ("fan_out", "does"),
    [
        ({"items": ["a"], "command": "mend ${{ item }}"}, "1 child: mend ${{ item }}"),
        ({"matrix": {"a": [1, 2], "b": [3, 4]}, "agent": {"prompt": "x", "model": "openai:x"}}, "4 children: agent openai:x"),
        ({"tasks": [{"name": "a", "command": "x"}, {"name": "b", "command": "y"}]}, "2 children: each its own"),
    ],
)
def test_a_run_that_fans_out_is_shown_with_what_its_children_do(
    a_run: Callable[..., Run], fan_out: dict[str, Any], does: str
) -> None:
    spec = RunSpec.model_validate({"fan_out": fan_out}).model_dump(mode="json")
    file = io.StringIO()

    show_run(file, replace(a_run(), spec=spec), [], [], [], [])

    assert f"does       {does}\n" in file.getvalue()


def test_a_run_is_shown_with_the_runs_below_it_and_what_all_used(a_run: Callable[..., Run]) -> None:
    run = a_run()
    child = replace(run, id="run-b", name="b", parent_id=run.id, root_id=run.id, depth=1, fan_out="1-fan-out")
    file = io.StringIO()

    show_run(file, run, [], [], [], [], Below([child], Spent(12_345, 2_000, 61.0)))

    shown = file.getvalue()
    assert "together   12,345 tokens, 1 min 01 s of sandboxes, $0.0020, with all below it\n" in shown
    assert "tree       b  success  3.0 s  run-b\n" in shown
    assert "parent" not in shown


@pytest.mark.parametrize(("root", "told"), [("run-up", "run-up"), ("run-top", "run-up, below run-top")])
def test_a_child_is_shown_with_its_parent(a_run: Callable[..., Run], root: str, told: str) -> None:
    file = io.StringIO()

    show_run(file, replace(a_run(), parent_id="run-up", root_id=root), [], [], [], [], Below([], Spent(1)))

    assert f"parent     {told}\n" in file.getvalue()
    assert "together" not in file.getvalue()


def test_the_summary_counts_children_and_says_where_their_merge_is_told(
    tmp_path: Path, a_run: Callable[..., Run], event: Callable[..., Event]
) -> None:
    tally, left = Tally(), [kept(tmp_path, name, b"x") for name in ("merge.json", "merge.md")]
    children = [{"run": f"run-{number}", "name": f"n{number}"} for number in range(40)]
    tally.feed(event("fan_out.started", key="1-fan-out", children=children))
    for number in range(40):
        status = "error" if number in (3, 7) else "success"
        tally.feed(event("child.finished", run=f"run-{number}", name=f"n{number}", status=status, error=None))
    tally.feed(event("merge.finished", key="1-fan-out", merged=12, conflicts=1, left_out=["n1"]))

    rows = summary.rows(a_run(), tally, left)

    assert rows == [
        ("children", "38 of 40 succeeded; failed: n3, n7"),
        ("merge", "12 files merged, 1 conflict left; left out: n1"),
        ("", f"merge.md: {tmp_path / 'merge.md'}"),
        ("artifacts", f"{tmp_path / 'merge.json'}  1 B"),
    ]


def test_the_summary_says_how_to_apply_the_patch(tmp_path: Path, a_run: Callable[..., Run]) -> None:
    patch = kept(tmp_path, "patch.diff", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    file = io.StringIO()

    summary.show(file, a_run(), Tally(), [patch], colours=False)

    assert file.getvalue() == (
        "\nsuccess  mend in 3.0 s\n"
        "  patch      1 file changed, 1 line added, 1 removed\n"
        f"             git apply {patch.place}\n"
    )


def test_a_patch_in_a_bucket_is_fetched_before_it_is_applied(tmp_path: Path, a_run: Callable[..., Run]) -> None:
    local = kept(tmp_path, "patch.diff", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")

    rows = summary.rows(a_run(), Tally(), [replace(local, place="s3://bucket/ab/cd")])

    assert rows[-1] == ("", "fanfold runs artifacts run-0123456789ab --out . && git apply patch.diff")


def test_a_patch_that_cannot_be_read_does_not_hide_the_rest(tmp_path: Path, a_run: Callable[..., Run]) -> None:
    def fail() -> BinaryIO:
        raise InfrastructureError("artifacts at s3://bucket: access was refused")

    patch = replace(kept(tmp_path, "patch.diff", b""), content=fail)

    rows = summary.rows(a_run(), Tally(), [patch, kept(tmp_path, "a.log", b"x")])

    assert ("patch", "artifacts at s3://bucket: access was refused") in rows
    assert rows[-1][0] == "artifacts"


def test_a_failure_says_what_to_look_at_next(a_run: Callable[..., Run]) -> None:
    rows = summary.rows(a_run("error", RunError("infrastructure", "no engine")), Tally(), [])

    assert rows == [("reason", "no engine"), ("next", "fanfold runs logs run-0123456789ab")]
