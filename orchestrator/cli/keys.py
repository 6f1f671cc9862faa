"""`fanfold keys`: who may use the API. They work on the record itself: the first key cannot come from the API."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import HELP_OPTIONS, Output, OutputOption, command

if TYPE_CHECKING:
    from orchestrator.runs.keys import ApiKey

app = typer.Typer(
    help="Make, list and revoke keys of the API.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)

Tenant = Annotated[
    str | None, typer.Option("--tenant", "-t", metavar="TENANT", help="Whose key it is.", show_default="FANFOLD_TENANT")
]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope", "-s", metavar="SCOPE", help="What it opens: runs:read, runs:write, sandboxes:exec, admin. Repeatable.",
        show_default="runs:read and runs:write",
    ),
]  # fmt: skip
ExpiresIn = Annotated[str | None, typer.Option("--expires-in", metavar="TIME", help="How long it lives: 12h, 90d.")]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id: key-...")]
DEFAULT_SCOPES = ("runs:read", "runs:write")


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for.")],
    scope: Scopes = None,
    tenant: Tenant = None,
    expires_in: ExpiresIn = None,
    output: OutputOption = Output.text,
) -> int:
    """Make a key, and print it: it cannot be shown again. Its tenant is made when it is not there."""
    from orchestrator.cli.door import open_record
    from orchestrator.cli.shapes import write_json

    seconds = _seconds(expires_in) if expires_in is not None else None
    with open_record() as service:
        made = service.of(_checked(tenant or service.tenant)).keys.create(name, scope or DEFAULT_SCOPES, expires_in=seconds)
    if output is Output.json:
        write_json({**_json(made.key), "key": made.text})
    else:
        sys.stderr.write(f"{made.key.id} of tenant {made.key.tenant} opens {', '.join(made.key.scopes)}\n")
        sys.stdout.write(f"{made.text}\n")
    return 0


def list_keys(tenant: Tenant = None, output: OutputOption = Output.text) -> int:
    """List a tenant's keys, the newest first."""
    from orchestrator.cli.door import open_record
    from orchestrator.cli.shapes import write_json
    from orchestrator.cli.table import columns
    from orchestrator.runs.database import now
    from orchestrator.text import clean

    with open_record() as service:
        found = service.of(_checked(tenant or service.tenant)).keys.list()
    if output is Output.json:
        write_json([_json(key) for key in found])
        return 0
    rows = [("KEY", "NAME", "SCOPES", "STATE", "USED")]
    for key in found:
        rows.append((key.id, clean(key.name), ",".join(key.scopes), _state(key, now()), _moment(key.used_at) or "never"))
    sys.stdout.write(columns(rows, colours=sys.stdout.isatty()) if found else "no keys: fanfold keys create NAME makes one\n")
    return 0


def revoke(key: KeyId, tenant: Tenant = None) -> int:
    """Revoke a key: it opens nothing from now on."""
    from orchestrator.cli.door import open_record

    with open_record() as service:
        revoked = service.of(_checked(tenant or service.tenant)).keys.revoke(key)
    sys.stdout.write(f"{revoked.id} revoked\n")
    return 0


def _checked(tenant: str) -> str:
    import re

    from orchestrator.errors import BadInput
    from orchestrator.settings import TENANT_PATTERN

    if not re.fullmatch(TENANT_PATTERN, tenant):
        raise BadInput(f"--tenant {tenant}: a name is at most 63 small letters, digits and '-', beginning with no '-'")
    return tenant


def _seconds(text: str) -> float:
    from orchestrator.errors import BadInput
    from sandboxes.providers.base import parse_duration

    try:
        return float(str(parse_duration(text)))
    except ValueError as exc:
        raise BadInput(f"--expires-in: {exc}") from exc


def _state(key: ApiKey, moment: datetime) -> str:
    if key.revoked_at:
        return "revoked"
    if not key.valid(moment):
        return "expired"
    return f"until {_moment(key.expires_at)}" if key.expires_at else "open"


def _json(key: ApiKey) -> dict[str, object]:
    times = {name: _moment(getattr(key, name)) for name in ("created_at", "expires_at", "revoked_at", "used_at")}
    return {"id": key.id, "tenant": key.tenant, "name": key.name, "scopes": list(key.scopes), **times}


def _moment(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None


command(app, create)
app.command("ls", context_settings=HELP_OPTIONS)(list_keys)
command(app, revoke)
