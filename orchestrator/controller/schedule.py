"""Submitting what is due by a schedule: once for each time, whoever leads and whoever dies in between.

The run is submitted under a key that is made of the schedule and the time that it was due; only then the schedule moves on, by
a compare-and-set. Who comes in between, because the one before died or because two think that they lead, submits under the
same key, and gets the run that there is. Times that nobody was there for are made up for by one run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from orchestrator.errors import BadInput
from orchestrator.runs.database import now
from orchestrator.runs.schedules import Overlap, Schedule, Schedules
from orchestrator.timetable import Timetable

logger = logging.getLogger(__name__)

SCHEDULE_EVERY = 0.5
"""Seconds between two looks."""
SCHEDULE_SLOWEST = 5.0
"""Seconds between two looks, at most, while runs cannot be submitted."""
AT_ONCE = 4
"""Schedules that submit at the same time: one that has to fetch a repository holds up few others."""

Submit = Callable[[str, dict[str, Any], str], str]
"""Submits a run: tenant, the order as `POST /v1/runs` takes it, and a key; its id. The same key gives the same run.

Raises `BadInput` when there can be no such run, `InfrastructureError` when it has to be tried again.
"""


class FireSchedules:
    """Submits what is due each time it is called."""

    def __init__(self, record: Schedules, submit: Submit, *, clock: Callable[[], datetime] = now) -> None:
        self._record = record
        self._submit = submit
        self._clock = clock

    def look(self) -> None:
        """Submit what is due. Raises the last thing that went wrong, when all has been tried."""
        due = self._record.due()
        if not due:
            return
        with ThreadPoolExecutor(min(AT_ONCE, len(due)), thread_name_prefix="schedule") as pool:
            futures = [pool.submit(self._fire, schedule) for schedule in due]
        failures = [failure for future in futures if (failure := future.exception())]
        if failures:
            raise failures[-1]

    def _fire(self, schedule: Schedule) -> None:
        run_id, error = self._run(schedule)
        try:
            next_at = Timetable.of(schedule.cron, schedule.timezone).after(self._clock())
        except BadInput as exc:  # the rules of time zones change
            next_at, error = None, str(exc)
        if self._record.came(schedule, next_at, run_id=run_id, error=error):
            logger.info("schedule %s: %s", schedule.id, run_id or error)

    def _run(self, schedule: Schedule) -> tuple[str | None, str | None]:
        """The id of the run, or why there is none."""
        last = schedule.last_run_id
        if schedule.overlap is Overlap.SKIP and last and self._record.goes_on(last, tenant=schedule.tenant):
            return None, f"left out: run {last} had not ended, and the schedule's overlap is 'skip'"
        try:
            return self._submit(schedule.tenant, schedule.order, key_of(schedule)), None
        except BadInput as exc:
            return None, str(exc)


def key_of(schedule: Schedule) -> str:
    """The key under which a schedule that is due submits its run."""
    assert schedule.next_at is not None
    return f"schedule:{schedule.id}:{schedule.next_at.astimezone(UTC).isoformat()}"
