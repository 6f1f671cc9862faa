"""`fanfold runs prune`: forget runs that ended long ago."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orchestrator.cli.options import Output, OutputOption
from orchestrator.errors import BadInput

MAX_KEEP = 1_000_000_000

OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="TIME", help="Only runs that ended longer ago: 12h, 30d.")
]
Keep = Annotated[
    int | None, typer.Option("--keep", min=0, max=MAX_KEEP, help="Never one of the last so many runs that ended.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say which runs these are.")]


def prune(
    older_than: OlderThan = None, keep: Keep = None, dry_run: DryRun = False, output: OutputOption = Output.text
) -> int:
    """Remove runs that have ended, with their events, artifacts and folders."""
    from orchestrator.cli.door import open_service
    from orchestrator.cli.shapes import write_json
    from orchestrator.text import count

    age = _seconds(older_than) if older_than is not None else None
    with open_service() as service:
        pruned = service.prune(older_than=age, keep=keep, dry_run=dry_run)
    if output is Output.json:
        write_json({"runs": pruned, "removed": not dry_run})
    else:
        lines = [*pruned, f"{count(len(pruned), 'run')} {'would be removed' if dry_run else 'removed'}"]
        sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _seconds(text: str) -> float:
    from sandboxes.providers.base import parse_duration

    try:
        return float(str(parse_duration(text)))
    except ValueError as exc:
        raise BadInput(f"--older-than: {exc}") from exc
