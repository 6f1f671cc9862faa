"""Lists of runs, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.errors import BadInput
from orchestrator.runs.listing import Filters, Listing, make_cursor, parse_cursor
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.store import Store


@pytest.fixture
def listing(store: Store) -> Listing:
    return Listing(store._engine)


def add(store: Store, number: int, **more: Any) -> str:
    return store.add(NewRun(f"run-{number:012x}", "x", {"command": "true"}, **more)).id


def ids(listing: Listing, filters: Filters | None = None, *, tenant: str = "default", limit: int = 100) -> list[str]:
    return [run.id for run in listing.page(filters or Filters(), tenant=tenant, limit=limit).runs]


def test_pages_hold_each_run_once_while_new_ones_come(store: Store, listing: Listing) -> None:
    made = [add(store, number) for number in range(7)]
    seen: list[str] = []
    cursor, later = None, 100
    while True:
        page = listing.page(Filters(), tenant="default", limit=3, cursor=cursor)
        seen += [run.id for run in page.runs]
        if (cursor := page.cursor) is None:
            break
        add(store, later)
        later += 1
    assert seen == made[::-1]


def test_runs_of_the_same_moment_are_told_apart(store: Store, listing: Listing, clock: Any) -> None:
    from orchestrator.runs.database import now

    moment = now()
    still = Store(store._engine, lambda: moment)
    made = [add(still, number) for number in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = listing.page(Filters(), tenant="default", limit=2, cursor=cursor)
        seen += [run.id for run in page.runs]
        if (cursor := page.cursor) is None:
            break
    assert seen == made[::-1]


def test_a_page_that_is_full_is_not_followed_by_an_empty_one(store: Store, listing: Listing) -> None:
    for number in range(4):
        add(store, number)
    assert listing.page(Filters(), tenant="default", limit=4).cursor is None


def test_filters_narrow_the_list(store: Store, listing: Listing, clock: Any) -> None:
    first = add(store, 1, labels={"env": "ci", "a.b/c": 'say "hi"'})
    clock.advance(60)
    middle = store._now()
    second = add(store, 2, labels={"env": "ci"}, batch_id="bat-000000000001")
    third = add(store, 3, labels={"env": "prod", "n": "1"})
    store.request_cancel(third)
    assert ids(listing, Filters(labels={"env": "ci"})) == [second, first]
    assert ids(listing, Filters(labels={"env": "ci", "a.b/c": 'say "hi"'})) == [first]
    assert ids(listing, Filters(labels={"n": "1"})) == [third]
    assert ids(listing, Filters(labels={"missing": ""})) == []
    assert ids(listing, Filters(batch_id="bat-000000000001")) == [second]
    assert ids(listing, Filters(thread_id="thr-000000000001")) == []
    assert ids(listing, Filters(statuses=[RunStatus.CANCELLED])) == [third]
    assert ids(listing, Filters(statuses=[RunStatus.PENDING, RunStatus.CANCELLED])) == [third, second, first]
    assert ids(listing, Filters(created_after=middle)) == [third, second]
    assert ids(listing, Filters(created_before=middle)) == [first]


EVERY_FILTER: dict[str, Callable[[datetime], Filters]] = {
    "none": lambda _: Filters(),
    "status": lambda _: Filters(statuses=[RunStatus.PENDING]),
    "label": lambda _: Filters(labels={"env": "ci"}),
    "batch": lambda _: Filters(batch_id="bat-000000000001"),
    "after": lambda at: Filters(created_after=at - timedelta(hours=1)),
    "before": lambda at: Filters(created_before=at + timedelta(hours=1)),
}


@pytest.mark.parametrize("name", EVERY_FILTER)
def test_no_filter_shows_anothers_run(store: Store, listing: Listing, name: str) -> None:
    mine = add(store, 1, labels={"env": "ci"}, batch_id="bat-000000000001", tenant="acme")
    theirs = add(store, 2, labels={"env": "ci"}, batch_id="bat-000000000001", tenant="other")
    filters = EVERY_FILTER[name](store._now())
    assert ids(listing, filters, tenant="acme") == [mine]
    assert ids(listing, filters, tenant="nobody") == []
    cursor = make_cursor(store._now() + timedelta(hours=1), theirs)
    assert [run.id for run in listing.page(filters, tenant="acme", limit=10, cursor=cursor).runs] == [mine]


def test_a_cursor_comes_back_as_it_was() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert parse_cursor(make_cursor(at, "run-1")) == (at, "run-1")


@pytest.mark.parametrize("cursor", ["", "x", "W10", "bnVsbA", "WyIyMDI2LTAxLTAxIiwgIngiXQ", "é", "WzEsIDJd", "=" * 9])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput, match="next_cursor"):
        parse_cursor(cursor)
