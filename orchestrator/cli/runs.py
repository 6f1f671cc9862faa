"""`fanfold runs`: what runs there are, what they did, and how to stop one or do it again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.decide import decide
from orchestrator.cli.options import HELP_OPTIONS, Output, OutputOption, RunId, command
from orchestrator.cli.prune import prune
from orchestrator.cli.retry import retry

if TYPE_CHECKING:
    from orchestrator.cli.door import Door
    from orchestrator.cli.summary import Kept
    from orchestrator.cli.view import View
    from orchestrator.runs.models import Run, RunStatus

app = typer.Typer(
    help="List, show, follow, answer, cancel, retry and prune runs, and get what they left.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)

DEFAULT_LIMIT = 20
MAX_LIMIT = 10_000

LogOutput = Annotated[
    str, typer.Option("--output", "-o", metavar="text|jsonl", help="Dated lines, or one JSON document for each event.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Copy them there, under their names.")]
Parent = Annotated[
    str | None, typer.Option("--parent", metavar="RUN", help="Only that run's children, in the order of their tasks.")
]
Everything = Annotated[bool, typer.Option("--all", "-a", help="Children too, and theirs.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended; Ctrl-C leaves it running.")]


def list_runs(
    status: Annotated[str | None, typer.Option("--status", "-s", help="Only runs of this status.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MAX_LIMIT, help="How many, newest first.")] = DEFAULT_LIMIT,
    parent: Parent = None,
    everything: Everything = False,
    output: OutputOption = Output.text,
) -> int:
    """List runs, newest first; without --all those that are nobody's children, or of --parent."""
    from orchestrator.cli.door import open_service
    from orchestrator.cli.shapes import run_json, write_json

    wanted = _status(status) if status else None
    with open_service() as service:
        if parent is None:
            found = service.list(status=wanted, limit=limit, with_children=everything)
        else:
            found = _children(service, parent, wanted, everything=everything)[:limit]
    if output is Output.json:
        write_json([run_json(run) for run in found])
    elif found:
        _table(found, with_parents=everything)
    else:
        which = f" of status {status}" if status else "" if parent else " yet: fanfold run TASK makes one"
        sys.stdout.write(f"{'no children' if parent else 'no runs'}{which}\n")
    return 0


def show(run: RunId, output: OutputOption = Output.text) -> int:
    """Show one run: its times, attempts, outcome and artifacts, and the runs below it."""
    from orchestrator.cli.children import Below
    from orchestrator.cli.door import kept_of, open_service
    from orchestrator.cli.shapes import artifact_json, attempt_json, run_json, spent_json, usage_json, write_json
    from orchestrator.cli.show import show_run

    with open_service() as service:
        found = service.get(run)
        kept, below = kept_of(service, found.id), Below(service.children(found.id), service.spent(found.id))
        attempts, usage, events = service.attempts(found.id), service.usage(found.id), list(service.events(found.id))
        if output is Output.json:
            left = [artifact_json(item.artifact, item.place) for item in kept]
            tried, used = [attempt_json(one) for one in attempts], [usage_json(one) for one in usage]
            together = {"children": [run_json(one) for one in below.children], "spent": spent_json(below.spent)}
            write_json({"run": run_json(found), "attempts": tried, "usage": used, "artifacts": left, **together})
        else:
            show_run(sys.stdout, found, attempts, usage, events, kept, below)
    return 0


def artifacts(run: RunId, out: Out = None, output: OutputOption = Output.text) -> int:
    """List what a run left, or copy it into a folder."""
    from orchestrator.cli.artifacts import copied, prepare
    from orchestrator.cli.door import kept_of, open_service
    from orchestrator.cli.shapes import artifact_json, write_json

    target = prepare(out) if out else None
    with open_service() as service:
        kept = kept_of(service, service.get(run).id)
        if target:
            kept = copied(kept, target)
    if output is Output.json:
        write_json([artifact_json(item.artifact, item.place) for item in kept])
    elif kept:
        _artifact_table(kept)
    else:
        sys.stdout.write("the run has left nothing\n")
    return 0


def logs(
    run: RunId,
    follow: Follow = False,
    output: LogOutput = "text",
) -> int:
    """Show what happened in a run."""
    from orchestrator.cli.door import open_service
    from orchestrator.errors import BadInput

    if output not in ("text", "jsonl"):
        raise BadInput(f"--output {output}: write text or jsonl")
    with open_service() as service, _log_view(output) as view:
        found = service.get(run)
        for event in service.follow(found.id) if follow else service.events(found.id):
            view.event(event)
    return 0


def cancel(run: RunId) -> int:
    """Cancel a run, and wait until its sandbox is destroyed."""
    from orchestrator.cli.door import open_service
    from orchestrator.errors import InfrastructureError

    with open_service() as service:
        found = service.get(run)
        service.cancel(found.id)
        for _ in service.follow(found.id):
            pass
        ended = service.get(found.id)
    if ended.status.value != "cancelled":
        raise InfrastructureError(f"run {found.id} ended as {ended.status.value} before it could be cancelled")
    sys.stdout.write(f"{found.id} cancelled\n")
    return 0


def _children(service: Door, parent: str, status: RunStatus | None, *, everything: bool) -> list[Run]:
    run = service.get(parent)
    below = service.children(run.id)
    return [one for one in below if (everything or one.parent_id == run.id) and status in (None, one.status)]


def _status(value: str) -> RunStatus:
    from orchestrator.errors import BadInput
    from orchestrator.runs.models import RunStatus

    try:
        return RunStatus(value)
    except ValueError as exc:
        raise BadInput(f"--status {value}: there is no such status; there are {', '.join(RunStatus)}") from exc


def _log_view(output: str) -> View:
    from orchestrator.cli.view import JsonLinesView, PlainView

    return JsonLinesView(sys.stdout) if output == "jsonl" else PlainView(sys.stdout)


def _artifact_table(kept: Sequence[Kept]) -> None:
    from orchestrator.cli.table import columns
    from orchestrator.text import clean, size

    rows = [("NAME", "SIZE", "WHERE")]
    rows += [(clean(item.artifact.name), size(item.artifact.size), clean(str(item.place))) for item in kept]
    sys.stdout.write(columns(rows, colours=sys.stdout.isatty()))


def _table(found: Sequence[Run], *, with_parents: bool) -> None:
    from orchestrator.cli.table import columns
    from orchestrator.text import ago, duration, one_line

    now = datetime.now(UTC)
    rows = [("RUN", *(["PARENT"] if with_parents else []), "NAME", "STATUS", "PROVIDER", "SUBMITTED", "TOOK")]
    for run in found:
        took = duration((run.finished_at - run.created_at).total_seconds()) if run.finished_at else ""
        age = ago((now - run.created_at).total_seconds())
        parent = [run.parent_id or ""] if with_parents else []
        rows.append((run.id, *parent, one_line(run.name, 40), run.status.value, one_line(run.provider, 20), age, took))
    sys.stdout.write(columns(rows, colours=sys.stdout.isatty()))


app.command("ls", context_settings=HELP_OPTIONS)(list_runs)
command(app, show)
command(app, artifacts)
command(app, logs)
command(app, cancel)
command(app, decide)
command(app, retry)
command(app, prune)
