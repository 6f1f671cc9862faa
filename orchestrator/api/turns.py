"""Requests that are large in memory, and therefore few at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from orchestrator.api.problems import RETRY_LATER, Refused
from orchestrator.errors import QuotaExceeded

CLOSE = {"Connection": "close"}
"""Header of an answer to a request whose body was not read to its end."""


class Turns:
    """Lets so many requests in at a time, and fewer of each tenant, so that none keeps the others out. Of one event loop."""

    def __init__(self, *, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, tenant: str, what: str) -> Iterator[None]:
        """Be one of them. Raises `QuotaExceeded` (429) when the tenant has its share, `Refused` (503) when all are taken."""
        if self._taken[tenant] >= self._each:
            told = f"{self._each} {what} of the tenant are being taken already: send the next when one of them is"
            raise QuotaExceeded(told, retry_after=RETRY_LATER)
        if self._taken.total() >= self._total:
            headers = {**CLOSE, "Retry-After": str(RETRY_LATER)}
            told = f"{self._total} {what} are being taken already: send it again later"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, told, headers)
        self._taken[tenant] += 1
        try:
            yield
        finally:
            self._taken[tenant] -= 1
            if not self._taken[tenant]:
                del self._taken[tenant]
