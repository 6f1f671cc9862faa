"""`fanfold runs show`: one run in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from orchestrator.cli import summary
from orchestrator.cli.data import Data
from orchestrator.cli.shapes import provider_of
from orchestrator.cli.tally import Tally
from orchestrator.cli.text import ago, clean, duration, one_line

if TYPE_CHECKING:
    from orchestrator.runs.models import Event, Run


def attempts(events: Iterable[Event]) -> list[dict[str, Any]]:
    """When each attempt began, and on which worker."""
    found = []
    for event in events:
        if event.type == "run.started":
            data = Data(event.data)
            began = event.at.isoformat()
            found.append({"attempt": data.integer("attempt"), "worker": data.text("worker"), "started_at": began})
    return found


def show_run(file: TextIO, run: Run, events: Sequence[Event], kept: Sequence[summary.Kept]) -> None:
    """Print it."""
    tally = Tally()
    for event in events:
        tally.feed(event)
    rows = [
        ("run", run.id),
        ("name", one_line(run.name)),
        ("status", run.status.value + (", cancelling" if run.cancel_requested and not run.status.terminal else "")),
        ("provider", one_line(provider_of(run))),
        ("does", _task(run)),
        ("submitted", _moment(run.created_at)),
        *([("started", _moment(run.started_at))] if run.started_at else []),
        *([("finished", f"{_moment(run.finished_at)}, took {_took(run)}")] if run.finished_at else []),
        *_attempt_rows(events),
        *summary.rows(run, tally, kept),
    ]
    file.write("".join(f"{label:11}{text}".rstrip() + "\n" for label, text in rows))


def _attempt_rows(events: Sequence[Event]) -> list[tuple[str, str]]:
    texts = [f"{one['attempt']} at {_clock(one['started_at'])} on {clean(one['worker'])}" for one in attempts(events)]
    return [("attempts" if index == 0 else "", text) for index, text in enumerate(texts)]


def _task(run: Run) -> str:
    agent = run.spec.get("agent")
    return f"agent {one_line(str(agent.get('model')))}" if isinstance(agent, dict) else one_line(str(run.spec.get("command")))


def _took(run: Run) -> str:
    return duration((run.finished_at - run.created_at).total_seconds()) if run.finished_at else ""


def _moment(at: datetime) -> str:
    local = at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return f"{local} ({ago((datetime.now(UTC) - at).total_seconds())})"


def _clock(at: str) -> str:
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")
