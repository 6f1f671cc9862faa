"""Lists and single runs, printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.cli import summary
from orchestrator.cli.show import attempts, show_run
from orchestrator.cli.summary import Kept
from orchestrator.cli.table import columns
from orchestrator.cli.tally import Tally
from orchestrator.runs.models import Artifact, Event, Run, RunError


def kept(tmp_path: Path, name: str, content: bytes) -> Kept:
    path = tmp_path / name
    path.write_bytes(content)
    return Kept(Artifact("run-0123456789ab", name, len(content), "", datetime.now(UTC)), path)


def test_columns_are_aligned_and_nothing_is_cut() -> None:
    assert columns([("RUN", "STATUS"), ("run-1", "success"), ("r", "error")]) == "RUN    STATUS\nrun-1  success\nr      error\n"


def test_statuses_are_coloured_on_a_terminal() -> None:
    assert "\x1b[31merror" in columns([("S",), ("error",)], colours=True)


def test_a_run_is_shown_with_its_attempts_and_artifacts(
    tmp_path: Path, a_run: Callable[..., Run], event: Callable[..., Event]
) -> None:
    run = a_run("error", RunError("task", "the command ended with exit code 2\nsecond line"))
    events = [event("run.started", attempt=1, worker="here"), event("run.started", attempt=2, worker="there")]
    file = io.StringIO()

    show_run(file, run, events, [kept(tmp_path, "command.log", b"x" * 2048)])

    shown = file.getvalue()
    assert "status     error\n" in shown
    assert "reason     the command ended with exit code 2\n           second line\n" in shown
    assert "does       make test\n" in shown
    assert "took 3.0 s\n" in shown
    assert f"artifacts  {tmp_path / 'command.log'}  2.0 KiB\n" in shown
    assert [one["worker"] for one in attempts(events)] == ["here", "there"]


def test_the_summary_says_how_to_apply_the_patch(tmp_path: Path, a_run: Callable[..., Run]) -> None:
    patch = kept(tmp_path, "patch.diff", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    file = io.StringIO()

    summary.show(file, a_run(), Tally(), [patch], colours=False)

    assert file.getvalue() == (
        "\nsuccess  mend in 3.0 s\n"
        "  patch      1 file changed, 1 line added, 1 removed\n"
        f"             git apply {patch.path}\n"
    )


def test_a_failure_says_what_to_look_at_next(a_run: Callable[..., Run]) -> None:
    rows = summary.rows(a_run("error", RunError("infrastructure", "no engine")), Tally(), [])

    assert rows == [("reason", "no engine"), ("next", "fanfold runs logs run-0123456789ab")]
