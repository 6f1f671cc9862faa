"""`fanfold tenants`: who shares this installation, and what each may. They work on the record itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import HELP_OPTIONS, Output, OutputOption

if TYPE_CHECKING:
    from orchestrator.runs.tenants import Tenant

app = typer.Typer(
    help="List tenants, and say what each of them may.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)


def list_tenants(output: OutputOption = Output.text) -> int:
    """List tenants and their limits. `-` is no limit."""
    from orchestrator.cli.door import open_record

    with open_record() as service:
        found = service.tenants.list()
    _show(found, output)
    return 0


def set_tenant(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Small letters, digits and '-'.")],
    weight: Annotated[float, typer.Option("--weight", min=0.001, max=1e6, help="Its share against the others'.")] = 1.0,
    max_running: Annotated[int | None, typer.Option("--max-running", min=0, help="Runs at the same time.")] = None,
    max_queued: Annotated[int | None, typer.Option("--max-queued", min=0, help="Runs that wait.")] = None,
    max_requests: Annotated[int | None, typer.Option("--max-requests", min=1, help="Requests to the API in a minute.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=0, help="Of models, in a month.")] = None,
    max_cost: Annotated[float | None, typer.Option("--max-cost", min=0, help="USD for models, in a month.")] = None,
    max_sandbox_seconds: Annotated[
        float | None, typer.Option("--max-sandbox-seconds", min=0, help="Of its sandboxes, in a month.")
    ] = None,
    output: OutputOption = Output.text,
) -> int:
    """Have a tenant with these limits. What is left out is no limit, also when it was one before."""
    from orchestrator.cli.door import open_record
    from orchestrator.runs.tenants import Limits

    limits = Limits(
        weight=weight,
        max_running=max_running,
        max_queued=max_queued,
        max_requests=max_requests,
        max_tokens=max_tokens,
        max_cost_micros=None if max_cost is None else round(max_cost * 1_000_000),
        max_sandbox_seconds=max_sandbox_seconds,
    )
    with open_record() as service:
        made = service.tenants.set(tenant, limits)
    _show([made], output)
    return 0


def _show(found: Sequence[Tenant], output: Output) -> None:
    from orchestrator.cli.shapes import write_json
    from orchestrator.cli.table import columns

    if output is Output.json:
        write_json([{"id": one.id, "created_at": one.created_at.isoformat(), **vars(one.limits)} for one in found])
        return
    names = list(found[0].limits.__dataclass_fields__)
    rows = [("TENANT", *(name.upper().replace("_", " ") for name in names))]
    rows += [(one.id, *(_shown(getattr(one.limits, name)) for name in names)) for one in found]
    sys.stdout.write(columns(rows, colours=sys.stdout.isatty()))


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


app.command("ls", context_settings=HELP_OPTIONS)(list_tenants)
app.command("set", context_settings=HELP_OPTIONS)(set_tenant)
