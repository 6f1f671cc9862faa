"""`fanfold run`: one task, from its file to its exit code."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import Env, Provider, RunOutput, Timeout, folder, variables

if TYPE_CHECKING:
    from orchestrator.cli.door import Order, Outcome
    from orchestrator.spec import RunSpec

TASK_FILE = "task.yaml"

Task = Annotated[Path, typer.Argument(metavar="TASK", help=f"The task file, or the folder of a {TASK_FILE}.")]
Model = Annotated[str | None, typer.Option("--model", metavar="MODEL", help="anthropic:NAME, openai:NAME, scripted:FILE, ...")]
Retries = Annotated[int | None, typer.Option("--retries", min=0, max=10, help="How often a failed attempt is tried again.")]
Granted = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME", help="A variable of your environment that the task may have. Repeatable."),
]
Inputs = Annotated[Path | None, typer.Option("--path", "-p", metavar="DIR", help="Work on this folder, not the task's inputs.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Copy the patch and the artifacts there.")]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report.")]
OutputForm = Annotated[RunOutput, typer.Option("--output", "-o", help="What stdout gets; with json, progress is on stderr.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Print the run's id and do not wait for it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, print the resolved task, run nothing.")]


def run(
    task: Task,
    provider: Provider = None,
    model: Model = None,
    timeout: Timeout = None,
    retries: Retries = None,
    env: Env = None,
    secret: Granted = None,
    path: Inputs = None,
    out: Out = None,
    junit: JUnit = None,
    output: OutputForm = RunOutput.text,
    detach: Detach = False,
    dry_run: DryRun = False,
) -> int:
    """Run a task in a sandbox.

    Shows the progress and ends with the task's exit code (see `fanfold --help`).

    Ctrl-C cancels the run and destroys its sandbox. The patch and the artifacts stay with the run, where the summary says;
    --out copies them.
    """
    from orchestrator.cli.overrides import Overrides
    from orchestrator.spec import load_task

    file = task / TASK_FILE if task.is_dir() else task
    inputs = folder("--path", path) if path else None
    spec = Overrides(provider, model, timeout, retries, variables(env), inputs).apply(load_task(file))
    order = _order(spec, file, secret or (), inputs=inputs is not None)
    if dry_run:
        from orchestrator.cli.dry import dry_run as check

        return check(order, as_json=output is not RunOutput.text)
    if detach:
        return _detached(order, output)
    return _attended(order, output, out, junit)


def _order(spec: RunSpec, file: Path, granted: Collection[str], *, inputs: bool) -> Order:
    from orchestrator.cli.door import Order

    return Order(spec, file.resolve().parent, granted, ["inputs"] if inputs else [])


def _detached(order: Order, output: RunOutput) -> int:
    from orchestrator.cli.door import open_service, submit
    from orchestrator.cli.shapes import run_json, write_json

    with open_service() as service:
        run = submit(service, order)
        service.ensure_worker()
    if output is RunOutput.text:
        sys.stdout.write(f"{run.id}\n")
    else:
        write_json({"run": run_json(run), "artifacts": []})
    return 0


def _attended(order: Order, output: RunOutput, out: Path | None, junit: Path | None) -> int:
    from orchestrator.cli import artifacts
    from orchestrator.cli.door import open_service, submit, watch
    from orchestrator.cli.junit import check_target, write_report
    from orchestrator.cli.view import choose

    target = artifacts.prepare(out) if out else None
    if junit:
        check_target(junit)
    with open_service() as service:
        run = submit(service, order)
        outcome = watch(service, run, choose(output.value, run))
        if junit:
            children = service.children(run.id) if run.spec.get("fan_out") else ()
            write_report(junit, outcome.run, outcome.tally, [one for one in children if one.id in outcome.tally.children])
        if target:
            outcome = replace(outcome, kept=artifacts.copied(outcome.kept, target))
        _report(outcome, output)
    return outcome.run.exit_code or 0


def _report(outcome: Outcome, output: RunOutput) -> None:
    from orchestrator.cli import summary
    from orchestrator.cli.shapes import artifact_json, run_json, write_json
    from orchestrator.cli.view import wants_live

    if output is not RunOutput.jsonl:
        file = sys.stdout if output is RunOutput.text else sys.stderr
        summary.show(file, outcome.run, outcome.tally, outcome.kept, colours=wants_live(file))
    if output is RunOutput.json:
        kept = [artifact_json(item.artifact, item.place) for item in outcome.kept]
        write_json({"run": run_json(outcome.run), "artifacts": kept})
