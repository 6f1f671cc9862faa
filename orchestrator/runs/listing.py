"""Lists of runs in pages: newest first, filtered, and stable while new runs come."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, and_, or_, select

from orchestrator.errors import BadInput
from orchestrator.runs import tables as t
from orchestrator.runs.database import Database, run_of
from orchestrator.runs.models import Run, RunStatus


@dataclass(frozen=True)
class Filters:
    """Which runs are meant: those that every filter lets through."""

    statuses: Collection[RunStatus] = ()
    """Any of these; none is all."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """All of these."""
    thread_id: str | None = None
    batch_id: str | None = None
    created_after: datetime | None = None
    """Then or later. Both moments have a time zone."""
    created_before: datetime | None = None
    """Sooner than then."""
    parent_id: str | None = None
    """Children of that run; None is the runs that are nobody's children."""
    with_children: bool = False
    """All runs, whosever children they are, where no `parent_id` says whose."""


@dataclass(frozen=True)
class Page:
    """Some of the runs."""

    runs: Sequence[Run]
    cursor: str | None
    """Where the next page begins; None when there is none."""


class Listing(Database):
    """Lists of each tenant's runs."""

    def page(self, filters: Filters, *, tenant: str, limit: int, cursor: str | None = None) -> Page:
        """At most `limit` runs, beginning where `cursor` says. Raises `BadInput` for a cursor that was not made here."""
        c = t.runs.c
        query = select(t.runs).where(c.tenant == tenant, *_conditions(filters))
        if cursor is not None:
            at, last = parse_cursor(cursor)
            query = query.where(or_(c.created_at < at, and_(c.created_at == at, c.id < last)))
        query = query.order_by(c.created_at.desc(), c.id.desc()).limit(limit + 1)
        with self._reading() as connection:
            found = [run_of(row) for row in connection.execute(query)]
        more = len(found) > limit
        found = found[:limit]
        return Page(found, make_cursor(found[-1].created_at, found[-1].id) if more else None)


def _conditions(filters: Filters) -> list[ColumnElement[bool]]:
    c = t.runs.c
    found: list[ColumnElement[bool]] = [c.labels[name].as_string() == value for name, value in filters.labels.items()]
    if filters.parent_id is not None or not filters.with_children:
        found.append(c.parent_id == filters.parent_id)  # which is "is null" for None
    if filters.statuses:
        found.append(c.status.in_([status.value for status in filters.statuses]))
    if filters.thread_id is not None:
        found.append(c.thread_id == filters.thread_id)
    if filters.batch_id is not None:
        found.append(c.batch_id == filters.batch_id)
    if filters.created_after is not None:
        found.append(c.created_at >= filters.created_after)
    if filters.created_before is not None:
        found.append(c.created_at < filters.created_before)
    return found


def make_cursor(created_at: datetime, last: str) -> str:
    """The place after the thing that was made then and has this id, in a list that is ordered by both."""
    return base64.urlsafe_b64encode(json.dumps([created_at.isoformat(), last]).encode()).decode().rstrip("=")


def parse_cursor(cursor: str) -> tuple[datetime, str]:
    """What `make_cursor` was given. Raises `BadInput`."""
    try:
        moment, last = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        at = datetime.fromisoformat(moment)
        if at.tzinfo is None or not isinstance(last, str) or not last.isprintable():
            raise ValueError(cursor)
    except (ValueError, TypeError, binascii.Error) as exc:
        raise BadInput("cursor: this is none; take `next_cursor` of the page before as it is") from exc
    return at, last
