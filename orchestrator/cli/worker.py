"""`fanfold worker`: becomes the worker process."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

Concurrency = Annotated[
    int | None, typer.Option("--concurrency", "-c", min=1, max=1000, help="Runs at the same time.", show_default="4")
]


def worker(
    concurrency: Concurrency = None,
    idle_exit: Annotated[
        float | None, typer.Option("--idle-exit", metavar="SECONDS", min=0.1, help="Leave after so long without a run.")
    ] = None,
    queues: Annotated[
        str | None, typer.Option("--queues", metavar="NAMES", help="Queues to take runs from: a,b.", show_default="fanfold")
    ] = None,
) -> int:
    """Execute runs until told to stop.

    `fanfold run` starts a worker by itself when none is there; that one leaves when it has been idle.
    """
    # -P: a file in the current folder must not be imported in place of a library.
    arguments = [sys.executable, "-P", "-m", "orchestrator.worker"]
    if concurrency is not None:
        arguments += ["--concurrency", str(concurrency)]
    if idle_exit is not None:
        arguments += ["--idle-exit", f"{idle_exit:g}"]
    if queues is not None:
        arguments += ["--queues", queues]
    sys.stdout.flush()
    os.execv(arguments[0], arguments)
