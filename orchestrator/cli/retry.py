"""`fanfold runs retry`: the same task once more."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from orchestrator.cli.options import Output, OutputOption, RunId

Granted = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME", help="A variable of your environment that the task may have. Repeatable."),
]


def retry(run: RunId, secret: Granted = None, output: OutputOption = Output.text) -> int:
    """Make a new run of the same task and inputs, and print its id.

    Secrets were forgotten when the run ended: they are taken from your environment again, each as it is granted.
    """
    from orchestrator.cli.door import open_service
    from orchestrator.cli.shapes import run_json, write_json
    from orchestrator.freeze import secrets_to_send
    from orchestrator.settings import load_settings
    from orchestrator.spec import parse_task
    from orchestrator.yamlfile import Document

    granted = load_settings(make_home=False).allowed_secrets | frozenset(secret or ())
    with open_service() as service:
        found = service.get(run)
        spec = parse_task(Document(found.spec, f"run {found.id}"))
        made = service.retry(found.id, secrets=secrets_to_send(spec, granted, os.environ))
        service.ensure_worker()
    if output is Output.json:
        write_json(run_json(made))
    else:
        sys.stdout.write(f"{made.id}\n")
    return 0
