"""`fanfold sandboxes`: what sandboxes there are, looking into one, keeping it, and ending it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import HELP_OPTIONS, Output, OutputOption, command

if TYPE_CHECKING:
    from orchestrator.runs.sandboxes import SandboxInfo

app = typer.Typer(
    help="List the sandboxes of runs, look into one, keep it, and end it.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)

DEFAULT_KEEP = "1h"

SandboxId = Annotated[str, typer.Argument(metavar="SANDBOX", help="The sandbox's id: sbx-...")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Also while its run goes on, which loses it then.")]
For = Annotated[str, typer.Option("--for", metavar="TIME", help="From now on: 30m, 2h; at most 24h.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="TIME", help="For the command: 90s, 10m; at most 10m.")]
Command = Annotated[
    list[str], typer.Argument(metavar="COMMAND...", help="The command and its arguments; one alone is given to the shell.")
]


def list_sandboxes(output: OutputOption = Output.text) -> int:
    """List the sandboxes of your runs, the newest first."""
    from orchestrator.cli.door import open_service
    from orchestrator.cli.shapes import write_json
    from orchestrator.text import one_line

    with open_service() as service:
        listing = service.sandboxes.list()
    if output is Output.json:
        write_json({"sandboxes": [_json(info) for info in listing.items], "unreachable": dict(listing.unreachable)})
        return 0
    if listing.items:
        _table(listing.items)
    else:
        sys.stdout.write("no sandboxes\n")
    sys.stdout.flush()
    for name, reason in listing.unreachable.items():
        sys.stderr.write(f"fanfold: {name}: its sandboxes cannot be told: {one_line(reason, 200)}\n")
    return 0


def rm(sandbox: SandboxId, force: Force = False) -> int:
    """End a sandbox."""
    from orchestrator.cli.door import open_service
    from orchestrator.text import clean

    with open_service() as service:
        service.sandboxes.destroy(sandbox, force=force)
    sys.stdout.write(f"{clean(sandbox)} ended\n")
    return 0


def keep(sandbox: SandboxId, for_: For = DEFAULT_KEEP, output: OutputOption = Output.text) -> int:
    """Have a sandbox stay when its run has ended. The end of its lifetime ends it all the same."""
    from orchestrator.cli.door import open_service
    from orchestrator.cli.overrides import seconds
    from orchestrator.cli.shapes import write_json

    time = seconds("--for", for_)
    with open_service() as service:
        info = service.sandboxes.keep(sandbox, time)
    if output is Output.json:
        write_json(_json(info))
    else:
        ends = f"; its lifetime ends at {_moment(info.expires_at)}" if info.expires_at else ""
        sys.stdout.write(f"{info.id} is kept until {_moment(info.kept_until)}{ends}\n")
    return 0


def exec(sandbox: SandboxId, command: Command, timeout: Timeout = None) -> int:
    """Run a command in a sandbox, show what it printed, and end with its exit code.

    The run's secrets are shown as ***. Options of fanfold go before the sandbox.
    """
    from orchestrator.cli.door import open_service
    from orchestrator.cli.overrides import seconds
    from orchestrator.cli.passthrough import PassThrough

    limits = {} if timeout is None else {"timeout": seconds("--timeout", timeout)}
    with open_service() as service:
        done = service.sandboxes.exec(sandbox, _shell(command), **limits)
    with PassThrough() as view:
        view.output("stdout", done.stdout)
        view.output("stderr", done.stderr)
    if done.timed_out:
        view.say("the command was out of time, and was killed")
    if done.truncated:
        view.say("the command printed more than what is shown")
    return done.exit_code


def _shell(words: list[str]) -> str:
    """What the shell is given. Nothing but the first `--` is taken away."""
    words = words[1:] if words[0] == "--" else words
    return words[0] if len(words) == 1 else shlex.join(words)


def _table(found: Sequence[SandboxInfo]) -> None:
    from orchestrator.cli.table import columns
    from orchestrator.text import ago, one_line

    now = datetime.now(UTC)
    rows = [("SANDBOX", "PROVIDER", "RUN", "ATTEMPT", "STATE", "MADE", "KEPT UNTIL", "ENDS")]
    for info in found:
        made = ago((now - info.created_at).total_seconds()) if info.created_at else ""
        attempt = "" if info.attempt is None else str(info.attempt)
        ends = (_moment(info.kept_until) or "", _moment(info.expires_at) or "")
        rows.append((info.id, one_line(info.provider, 20), info.run_id, attempt, info.state, made, *ends))
    sys.stdout.write(columns(rows, colours=sys.stdout.isatty()))


def _json(info: SandboxInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "provider": info.provider,
        "run": info.run_id,
        "attempt": info.attempt,
        "state": info.state,
        "created_at": _moment(info.created_at),
        "expires_at": _moment(info.expires_at),
        "kept_until": _moment(info.kept_until),
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None


app.command("ls", context_settings=HELP_OPTIONS)(list_sandboxes)
command(app, rm)
command(app, keep)
command(app, exec, passes_arguments=True)
