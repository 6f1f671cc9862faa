"""When a schedule is due: a line of cron with five fields, read in a time zone.

What cron does when clocks change holds here. A job at a certain time that a day does not have (02:30 of the night in which the
clock goes from 02:00 to 03:00) comes as soon as that hour is over; at one that a day has twice, it comes the first time. A job
with `*` in its minutes or hours follows the clock: it comes in both hours, and not in one that is not there.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from orchestrator.errors import BadInput

FIELDS = 5
"""Minute, hour, day of the month, month, day of the week: nothing comes more often than once a minute."""
MAX_CRON = 200
"""Characters of a line."""


@dataclass(frozen=True)
class Timetable:
    """A line of cron and a time zone that make sense together. `Timetable.of` makes one."""

    cron: str
    zone: ZoneInfo

    @classmethod
    def of(cls, cron: str, timezone: str) -> Timetable:
        """Raises `BadInput` when the line or the name of the zone (`Europe/Berlin`) makes no sense, or it never is due."""
        made = cls(cron, _zone(timezone))
        made.after(datetime.now(UTC))
        return made

    def after(self, moment: datetime) -> datetime:
        """The first time after `moment` at which it is due, in UTC. Raises `BadInput` when there is none in fifty years."""
        if len(self.cron) > MAX_CRON or len(self.cron.split()) != FIELDS:
            raise BadInput(f"cron: {self.cron[:MAX_CRON]!r} has not the five fields minute, hour, day, month and weekday")
        try:
            for local in CronSim(self.cron, moment.astimezone(self.zone)):
                due = local.astimezone(UTC)
                if due > moment:  # in an hour that comes twice, the first one may be over already
                    return due
        except (CronSimError, ValueError, AssertionError, OverflowError) as exc:
            raise BadInput(f"cron: {self.cron!r} makes no sense: {exc}".rstrip(": ")) from exc
        raise BadInput(f"cron: {self.cron!r} never comes: no date fits it")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise BadInput(f"timezone: there is no time zone {name[:64]!r}; write one as Europe/Berlin, or UTC") from exc
