"""`fanfold runs decide`: a person's answer to a run that asks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.cli.options import RunId
from orchestrator.errors import BadInput

if TYPE_CHECKING:
    from orchestrator.runs.models import Run

MAX_BYTES = 4 * 1024 * 1024
"""Of a file of decisions."""

Approve = Annotated[bool, typer.Option("--approve", help="Let every call be done as the agent wants it.")]
Reject = Annotated[str | None, typer.Option("--reject", metavar="WHY", help="Let none be done; the agent is told why.")]
Decisions = Annotated[
    Path | None, typer.Option("--decisions", metavar="FILE", help="JSON: a decision for each call, in their order; - is stdin.")
]


def decide(run: RunId, approve: Approve = False, reject: Reject = None, decisions: Decisions = None) -> int:
    """Answer what an interrupted run asks; `fanfold runs show` tells what that is. The run goes on."""
    from orchestrator.cli.door import open_service

    if sum([approve, reject is not None, decisions is not None]) != 1:
        raise BadInput("say one of --approve, --reject WHY and --decisions FILE")
    with open_service() as service:
        found = service.get(run)
        decided = service.decide(found.id, _read(decisions) if decisions else _same(found, reject))
        service.ensure_worker()
    sys.stdout.write(f"{decided.id} goes on\n")
    return 0


def _same(run: Run, reject: str | None) -> list[dict[str, Any]]:
    """One decision for all that the run asks about."""
    decision = {"type": "approve"} if reject is None else {"type": "reject", "message": reject}
    return [decision for _ in (run.interrupt or {}).get("actions", [])]


def _read(path: Path) -> list[dict[str, Any]]:
    """The decisions in a file. Raises `BadInput`."""
    try:
        if str(path) == "-":
            text = sys.stdin.read(MAX_BYTES)
        else:
            with path.open() as file:
                text = file.read(MAX_BYTES)
        found = json.loads(text)
    except (OSError, ValueError) as exc:
        raise BadInput(f"--decisions {path}: {getattr(exc, 'strerror', None) or exc}") from exc
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadInput(f'--decisions {path}: write a JSON list, one decision for each call: [{{"type": "approve"}}]')
    return found
