"""What `fanfold doctor` looks at where the commands work on an API: whether it answers, as whom, and whether runs would run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator.cli.checks import Check
from orchestrator.errors import BadInput, FanfoldError
from orchestrator.text import clean, count

if TYPE_CHECKING:
    from orchestrator.client import Client
    from orchestrator.client.models import Me
    from orchestrator.settings import Settings

NEEDED = ("runs:write", "runs:read")
"""Scopes without which `fanfold run` does not work."""


def api_checks(settings: Settings) -> Iterator[Check]:
    """Ask the API of `FANFOLD_URL`."""
    from orchestrator.client.service import RemoteService

    try:
        with RemoteService(settings) as service:
            yield _identity(service.client)
            yield _workers(service.client)
    except FanfoldError as exc:
        hint = "check FANFOLD_URL and FANFOLD_API_KEY" if isinstance(exc, BadInput) else "start it, or correct FANFOLD_URL"
        yield Check("api", "missing", str(exc), (hint,), needed=True)


def _identity(client: Client) -> Check:
    me = client.me()
    lacking = [scope for scope in NEEDED if not _may(me, scope)]
    found = f"{client.url} (FANFOLD_URL), as {me.key_id} of the tenant {me.tenant}: {', '.join(me.scopes)}"
    hint = f"`fanfold run` needs a key with {' and '.join(lacking)}"
    return Check("api", "limited" if lacking else "ok", clean(found), (hint,) if lacking else (), needed=True)


def _may(me: Me, scope: str) -> bool:
    return scope in me.scopes or "admin" in me.scopes


def _workers(client: Client) -> Check:
    alive = client.workers()
    if not alive:
        return Check("workers", "limited", "none is alive", ("runs wait until its operator starts one: `fanfold worker`",))
    places = sum(worker.concurrency for worker in alive)
    return Check("workers", "ok", f"{count(len(alive), 'worker')}, {count(places, 'run')} at the same time")
