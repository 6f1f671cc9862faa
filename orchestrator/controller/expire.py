"""Ending runs whose question nobody has answered in time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from orchestrator.runs.controlling import ControlRecord

logger = logging.getLogger(__name__)

EXPIRE_EVERY = 1.0
"""Seconds between two looks."""
EXPIRE_SLOWEST = 10.0
"""Seconds between two tries, at most, while the record is away."""


class Expiry:
    """Looks once each time it is called. `nudge` calls a worker, which ends what the run has left."""

    def __init__(self, record: ControlRecord, nudge: Callable[[str], None]) -> None:
        self._record = record
        self._nudge = nudge

    def look(self) -> None:
        """End what is late. Raises `InfrastructureError` when the record or the broker is not there."""
        for run_id in self._record.expire_decisions():
            logger.warning("%s: nobody has decided in time", run_id)
            self._nudge(run_id)
