"""Lists in pages: the newest first, and stable while new things come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from orchestrator.runs.listing import make_cursor, parse_cursor


class Dated(Protocol):
    """What lists are ordered by."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def created_at(self) -> datetime:
        """When it was made."""


D = TypeVar("D", bound=Dated)


@dataclass(frozen=True)
class Page(Generic[D]):
    """A part of a list."""

    items: Sequence[D]
    cursor: str | None
    """Where the next page begins; None when there is none."""


def page_of(read: Callable[[int, tuple[datetime, str] | None], Sequence[D]], limit: int, cursor: str | None) -> Page[D]:
    """At most `limit` things, beginning where `cursor` says. Raises `BadInput` for a cursor that was not made here.

    `read(number, before)` gives so many of them at most, the newest first, which come after the one made then with that id.
    """
    found = read(limit + 1, parse_cursor(cursor) if cursor is not None else None)
    more = len(found) > limit
    found = found[:limit]
    return Page(found, make_cursor(found[-1].created_at, found[-1].id) if more else None)
