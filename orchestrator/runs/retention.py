"""Forgetting runs that ended long ago: their rows, their folders, and content that no run refers to any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from orchestrator.runs import tables as t
from orchestrator.runs.database import Database
from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import DEFAULT_TENANT, RunStatus

if TYPE_CHECKING:
    from orchestrator.runs.artifacts import ArtifactStore

RUNS_AT_ONCE = 20
"""Runs that one transaction deletes, so that others can write in between."""
DIGESTS_AT_ONCE = 500
"""Contents that one question to the record asks for."""

_ENDED = t.runs.c.status.in_([status.value for status in RunStatus if status.terminal])


class Retention(Database):
    """What may be forgotten, and forgetting it. A run that has not ended never is."""

    def prunable(self, *, older_than: float | None = None, keep: int | None = None, tenant: str = DEFAULT_TENANT) -> list[str]:
        """Ids of a tenant's runs that ended more than `older_than` seconds ago and are not among the last `keep` that ended.

        A bound that is None excludes nothing. The first that ended comes first. Children go with the run at their top.
        """
        c = t.runs.c
        own = select(c.id).where(_ENDED, c.tenant == tenant, c.parent_id.is_(None))
        query = own.order_by(c.finished_at, c.id)
        if older_than is not None:
            try:
                query = query.where(c.finished_at < self._now() - timedelta(seconds=older_than))
            except OverflowError:  # longer than there have been dates
                return []
        if keep is not None:
            query = query.where(c.id.not_in(own.order_by(c.finished_at.desc(), c.id.desc()).limit(keep)))
        with self._reading() as connection:
            return list(connection.execute(query).scalars())

    def forget(self, run_ids: Collection[str]) -> None:
        """Delete these runs with their children, and all their events, attempts and artifacts' entries.

        Those that have not ended stay, and so do those that are children themselves.
        """
        c = t.runs.c
        with self._writing() as connection:
            connection.execute(delete(t.runs).where(c.id.in_(run_ids), _ENDED, c.parent_id.is_(None)))

    def with_descendants(self, run_ids: Collection[str]) -> list[str]:
        """These runs, and all that are in the trees below them, where they are at the top."""
        c = t.runs.c
        with self._reading() as connection:
            return [*run_ids, *connection.execute(select(c.id).where(c.root_id.in_(run_ids))).scalars()]

    def unreferenced(self, digests: Collection[str]) -> list[str]:
        """Those of the contents that are no run's artifact."""
        query = select(t.artifacts.c.sha256).where(t.artifacts.c.sha256.in_(digests))
        with self._reading() as connection:
            known = set(connection.execute(query).scalars())
        return [digest for digest in digests if digest not in known]


def discard(record: Retention, run_ids: Iterable[str], *, runs_dir: Path, artifacts: ArtifactStore) -> None:
    """Remove runs that have ended, and then all content that is no run's any more.

    The folders of a run and its children go before its rows: when this is interrupted, the next time finds the rest.
    """
    waiting = iter(run_ids)
    while batch := list(islice(waiting, RUNS_AT_ONCE)):
        for run_id in record.with_descendants(batch):
            RunFolder.of(runs_dir, run_id).remove()
        record.forget(batch)
    old = artifacts.old()
    while digests := list(islice(old, DIGESTS_AT_ONCE)):
        artifacts.remove(record.unreferenced(digests))
