"""`fanfold exec`: one command in a fresh sandbox, its output and its exit code as if it ran here."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import Env, Provider, Timeout, folder, variables

if TYPE_CHECKING:
    from orchestrator.cli.door import Order, Outcome

OUTPUT_LOG = "command.log"
"""The artifact with the output that was too much for events."""

Command = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command and its arguments, after `--`.")]
CopiedFolder = Annotated[
    Path | None, typer.Option("--path", "-p", metavar="DIR", help="Work on a copy of this folder; without it, in an empty one.")
]
Network = Annotated[str | None, typer.Option("--network", metavar="none|public", help="What it may reach; none by default.")]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="For providers that have images.")]
Dockerfile = Annotated[
    Path | None, typer.Option("--dockerfile", metavar="FILE", help="Instead of an image: build it; its folder is the context.")
]


def exec(
    command: Command,
    path: CopiedFolder = None,
    provider: Provider = None,
    network: Network = None,
    image: Image = None,
    dockerfile: Dockerfile = None,
    env: Env = None,
    timeout: Timeout = None,
) -> int:
    """Run one command in a fresh sandbox.

    Its output comes as it is printed, its standard input is empty, and its exit code is that of `fanfold exec`; 2, 3, 4 and
    130 can also come from fanfold itself, which then says so on stderr. For a pipe: -- sh -c 'make | tail'.
    """
    from orchestrator.cli.door import open_service, submit, watch
    from orchestrator.cli.passthrough import PassThrough

    sandbox = {"provider": provider, "network": network, "image": image, "env": variables(env) or None}
    if dockerfile is not None:
        sandbox["dockerfile"] = str(dockerfile)
    order = _order(command, path, sandbox, timeout)
    with open_service() as service:
        run = submit(service, order)
        view = PassThrough()
        outcome = watch(service, run, view)
        for item in outcome.kept:
            if item.artifact.name == OUTPUT_LOG:
                with item.content() as log:
                    view.rest(log)
    return _exit_code(outcome)


def _order(command: list[str], path: Path | None, sandbox: Mapping[str, Any], timeout: str | None) -> Order:
    from orchestrator.cli.door import Order
    from orchestrator.cli.overrides import seconds, validated

    data = {
        "name": "exec",
        "command": shlex.join(command),
        "sandbox": {key: value for key, value in sandbox.items() if value is not None},
        "inputs": {"path": str(folder("--path", path))} if path else None,
        "outputs": {"patch": False},
        "timeout": seconds("--timeout", timeout) if timeout else None,
    }
    spec = validated({key: value for key, value in data.items() if value is not None}, "command line")
    return Order(spec, Path.cwd(), named=["inputs", "dockerfile"])


def _exit_code(outcome: Outcome) -> int:
    """The command's own when it ended by itself; fanfold's, with the reason on stderr, in every other case."""
    from orchestrator.cli.guard import complain

    run, code = outcome.run, outcome.tally.command_exit
    by_itself = run.status.value == "success" or (run.error is not None and run.error.kind == "task")
    if run.status.value in ("success", "error") and by_itself and code is not None:
        return code
    if run.status.value != "cancelled":
        sys.stdout.flush()
        complain(run.error.message if run.error else f"the run ended as {run.status.value}")
    return run.exit_code or 0
