"""`fanfold runs show`: one run in full."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from orchestrator.cli import summary
from orchestrator.cli.children import Below, tree_rows
from orchestrator.cli.spending import spent_text, usage_rows
from orchestrator.cli.tally import Tally
from orchestrator.text import ago, clean, count, duration, one_line

if TYPE_CHECKING:
    from orchestrator.runs.models import Attempt, Event, ModelUsage, Run


def show_run(
    file: TextIO,
    run: Run,
    attempts: Sequence[Attempt],
    usage: Sequence[ModelUsage],
    events: Sequence[Event],
    kept: Sequence[summary.Kept],
    below: Below | None = None,
) -> None:
    """Print it."""
    tally = Tally()
    for event in events:
        tally.feed(event)
    rows = [
        ("run", run.id),
        ("name", one_line(run.name)),
        *_parent_rows(run),
        ("status", run.status.value + (", cancelling" if run.cancel_requested and not run.status.terminal else "")),
        ("provider", one_line(run.provider)),
        ("does", _task(run)),
        ("submitted", _moment(run.created_at)),
        *([("started", _moment(run.started_at))] if run.started_at else []),
        *([("finished", f"{_moment(run.finished_at)}, took {_took(run)}")] if run.finished_at else []),
        *_attempt_rows(attempts),
        *usage_rows(attempts, usage),
        *(_below_rows(run, below) if below and below.children else []),
        *_question_rows(run),
        *summary.rows(run, tally, kept),
    ]
    file.write("".join(f"{label:11}{text}".rstrip() + "\n" for label, text in rows))


def _parent_rows(run: Run) -> list[tuple[str, str]]:
    if run.parent_id is None:
        return []
    return [("parent", run.parent_id if run.parent_id == run.top else f"{run.parent_id}, below {run.top}")]


def _below_rows(run: Run, below: Below) -> list[tuple[str, str]]:
    return [("together", f"{spent_text(below.spent)}, with all below it"), *tree_rows(run, below.children)]


def _attempt_rows(attempts: Sequence[Attempt]) -> list[tuple[str, str]]:
    return [("attempts" if index == 0 else "", _attempt(one)) for index, one in enumerate(attempts)]


def _attempt(one: Attempt) -> str:
    began = one.started_at.astimezone().strftime("%H:%M:%S")
    ended = f" after {duration((one.finished_at - one.started_at).total_seconds())}" if one.finished_at else ""
    reason = f": {one_line(one.error.message)}" if one.error else ""
    return f"{one.number} at {began} on {clean(one.worker)}, {one.status.value}{ended}{reason}"


def _question_rows(run: Run) -> list[tuple[str, str]]:
    """What it asks, a line for each call that a person is to decide about."""
    if run.interrupt is None:
        return []
    actions = run.interrupt.get("actions", [])
    asked = [f"{one_line(str(one.get('name')))}  {one_line(json.dumps(one.get('args')), 200)}" for one in actions]
    until = f", until {_moment(run.decide_by)}" if run.decide_by else ""
    answer = ("", f"answer with `fanfold runs decide {run.id}`{until}")
    return [*(("asks" if index == 0 else "", text) for index, text in enumerate(asked)), answer]


def _task(run: Run) -> str:
    fan_out = run.spec.get("fan_out")
    if not isinstance(fan_out, dict):
        return _work(run.spec)
    return f"{count(_children(fan_out), 'child', 'children')}: {_work(fan_out)}"


def _work(task: Mapping[str, Any]) -> str:
    agent = task.get("agent")
    if isinstance(agent, dict):
        return f"agent {one_line(str(agent.get('model')))}"
    return one_line(str(task.get("command") or "each its own"))


def _children(fan_out: Mapping[str, Any]) -> int:
    if isinstance(matrix := fan_out.get("matrix"), dict):
        return math.prod(len(values) for values in matrix.values())
    return len(fan_out.get("items") or fan_out.get("tasks") or ())


def _took(run: Run) -> str:
    return duration((run.finished_at - run.created_at).total_seconds()) if run.finished_at else ""


def _moment(at: datetime) -> str:
    local = at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return f"{local} ({ago((datetime.now(UTC) - at).total_seconds())})"
