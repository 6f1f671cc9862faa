"""Whose a sandbox is, and which ones somebody keeps to look into them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, select, update

from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.database import Database, insert_unless_there
from orchestrator.runs.labels import ATTEMPT_LABEL, INSTALLATION_LABEL, RUN_LABEL
from orchestrator.runs.models import RunStatus
from sandboxes.providers.base import SandboxHandle


@dataclass(frozen=True)
class Owner:
    """A run as far as its sandboxes depend on it."""

    ended: bool
    attempt: int
    sandbox_id: str | None
    """The sandbox that the record counts as the run's."""


class Keeping(Database):
    """Sandboxes that stay for a while after their run. The end of their lifetime ends them all the same."""

    def keep(self, sandbox_id: str, run_id: str, seconds: float) -> datetime:
        """Keep a sandbox for so long from now, whatever was said before; until when."""
        c, moment = s.kept_sandboxes.c, self._now()
        until = moment + timedelta(seconds=seconds)
        values = {"run_id": run_id, "until": until}
        with self._writing() as connection:
            connection.execute(delete(s.kept_sandboxes).where(c.until < moment))
            connection.execute(insert_unless_there(connection, s.kept_sandboxes).values(sandbox_id=sandbox_id, **values))
            connection.execute(update(s.kept_sandboxes).where(c.sandbox_id == sandbox_id).values(values))
        return until

    def let_go(self, sandbox_id: str) -> None:
        """Keep a sandbox no longer."""
        with self._writing() as connection:
            connection.execute(delete(s.kept_sandboxes).where(s.kept_sandboxes.c.sandbox_id == sandbox_id))

    def is_kept(self, sandbox_id: str) -> bool:
        """Whether somebody keeps this sandbox now: then nobody may end it, whatever has become of its run."""
        return bool(self.kept([sandbox_id]))

    def kept(self, sandbox_ids: Collection[str]) -> dict[str, datetime]:
        """Those of these sandboxes that somebody keeps now, and until when."""
        c = s.kept_sandboxes.c
        query = select(c.sandbox_id, c.until).where(c.sandbox_id.in_(sandbox_ids), c.until > self._now())
        with self._reading() as connection:
            return {row.sandbox_id: row.until for row in connection.execute(query)}

    def owners(self, run_ids: Collection[str], *, tenant: str | None = None) -> dict[str, Owner]:
        """Those of these runs that there are; with a `tenant`, of its own runs only."""
        c = t.runs.c
        own: list[ColumnElement[bool]] = [] if tenant is None else [c.tenant == tenant]
        query = select(c.id, c.status, c.attempt, c.sandbox).where(c.id.in_(run_ids), *own)
        with self._reading() as connection:
            return {
                row.id: Owner(RunStatus(row.status).terminal, row.attempt, (row.sandbox or {}).get("id"))
                for row in connection.execute(query)
            }


def is_orphan(handle: SandboxHandle, installation: str, owner: Owner | None, *, kept: bool = False) -> bool:
    """Whether nobody will ever use this sandbox of ours again. `owner` is its run, None when the record has none.

    It is one when its run has ended or is gone, or when a later attempt has taken its place; but never while the record counts
    it as the sandbox of a run that goes on, or somebody keeps it. What does not name our installation, or no run at all, is not
    ours to judge.
    """
    if kept or handle.labels.get(INSTALLATION_LABEL) != installation or not handle.labels.get(RUN_LABEL):
        return False
    if owner is None or owner.ended:
        return True
    attempt = handle.labels.get(ATTEMPT_LABEL, "")
    superseded = attempt.isascii() and attempt.isdigit() and int(attempt) < owner.attempt
    return superseded and owner.sandbox_id != handle.id
