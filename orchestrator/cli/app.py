"""All commands, in the order in which `fanfold --help` shows them."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import (
    api,
    controller,
    doctor,
    exec,
    keys,
    merge,
    migrate,
    run,
    runs,
    sandboxes,
    schedules,
    tenants,
    up,
    worker,
)
from orchestrator.cli.main import show_version
from orchestrator.cli.options import HELP_OPTIONS, command

HELP = """Runs AI agents, and plain commands, in sandboxes."""

# \b keeps the lines as they are.
EXIT_CODES = """\b
Exit codes:
  0    success
  1    the task failed: its command, its check or its agent; a merge left conflicts
  2    bad input: an option, a task file, a missing folder or key
  3    infrastructure: the sandbox, the queue, the worker, the machine
  4    timeout
  130  cancelled
`fanfold exec` ends with the exit code of its command."""

app = typer.Typer(
    help=HELP,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP_OPTIONS,
)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.")] = False,
) -> None:
    """Answer `--version` among other arguments; alone it is answered before anything is imported."""
    if version:
        show_version()
        raise typer.Exit


command(app, run.run)
command(app, exec.exec, passes_arguments=True)
app.add_typer(runs.app, name="runs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(sandboxes.app, name="sandboxes")
command(app, merge.merge)
command(app, up.up)
command(app, worker.worker)
command(app, controller.controller)
command(app, api.api)
command(app, migrate.migrate)
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")
command(app, doctor.doctor)
