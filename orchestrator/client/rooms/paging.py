"""Going through a list page after page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from orchestrator.client.models import Page

T = TypeVar("T")

DEFAULT_LIMIT = 50
"""Items of one page."""


async def every(page_at: Callable[[str | None], Awaitable[Page[T]]]) -> AsyncIterator[T]:
    """The items of all pages; `page_at` gives the one at a cursor, None for the first."""
    cursor: str | None = None
    while True:
        page = await page_at(cursor)
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
