"""Of several controllers one leads: by a lease in the record, which it renews."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from orchestrator.runs.controlling import ControlRecord

logger = logging.getLogger(__name__)

LEAD_TTL = 3.0
"""Seconds after which another controller may lead when the leader is silent."""
RENEW_EVERY = 0.5
"""Seconds between two renewals, and between two tries of the others."""


class Leadership:
    """Whether this controller leads. `renew` has to be called again and again."""

    def __init__(self, record: ControlRecord, holder: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._record = record
        self._holder = holder
        self._clock = clock
        self._until = float("-inf")

    @property
    def held(self) -> bool:
        """Whether it leads now. Without a renewal it leads no longer than its lease, whatever keeps it from renewing."""
        return self._clock() < self._until

    def renew(self) -> None:
        """Lead on, or try to. Raises `InfrastructureError` when the record is not there."""
        led, began = self.held, self._clock()  # counted from before the question: the record's own time begins later
        leads = self._record.lead(self._holder, LEAD_TTL)
        self._until = began + LEAD_TTL if leads else float("-inf")
        if leads != led:
            logger.info("controller %s %s", self._holder, "leads" if leads else "leads no more")

    def resign(self) -> None:
        """Let another one lead at once. Raises `InfrastructureError` when the record is not there."""
        if self.held:
            self._until = float("-inf")
            self._record.resign(self._holder)

    def led(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work`, which does nothing while another controller leads."""

        def only_as_leader() -> None:
            if self.held:
                work()

        return only_as_leader
