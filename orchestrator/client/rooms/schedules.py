"""Schedules: runs that are submitted again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Literal

from orchestrator.client.caller import Caller
from orchestrator.client.driving import Blocking, blocking, iterating
from orchestrator.client.models import Page, Run, Schedule
from orchestrator.client.orders import Order, order_of
from orchestrator.client.rooms.paging import DEFAULT_LIMIT, every
from orchestrator.spec import RunSpec

Overlap = Literal["skip", "allow"]
"""What happens when a schedule is due while its last run goes on: that time is left out, or another run begins beside it."""


class AsyncSchedules:
    """Schedules of the key's tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(
        self,
        name: str,
        task: RunSpec | Mapping[str, Any] | Order,
        *,
        cron: str,
        timezone: str = "UTC",
        overlap: Overlap = "skip",
        enabled: bool = True,
    ) -> Schedule:
        """Have a task run at the times of `cron` (`30 2 * * 1-5`), read in `timezone` (`Europe/Berlin`).

        The task has no files and no secrets but what the server has: uploads do not live that long. It is asked for once.
        """
        run = order_of(task).body()
        body = {"name": name, "cron": cron, "timezone": timezone, "overlap": overlap, "enabled": enabled, "run": run}
        return await self._caller.post(Schedule, "schedules", body=body)

    async def list(self, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[Schedule]:
        """One page of schedules, the newest first."""
        return await self._caller.get(Page[Schedule], "schedules", params={"limit": limit, "cursor": cursor})

    async def iterate(self, *, page_size: int = DEFAULT_LIMIT) -> AsyncIterator[Schedule]:
        """Every schedule."""
        page_at = partial(self.list, limit=page_size)
        async for schedule in every(lambda cursor: page_at(cursor=cursor)):
            yield schedule

    async def get(self, schedule_id: str) -> Schedule:
        """The schedule as it is now."""
        return await self._caller.get(Schedule, "schedules", schedule_id)

    async def change(
        self,
        schedule_id: str,
        *,
        name: str | None = None,
        task: RunSpec | Mapping[str, Any] | Order | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        overlap: Overlap | None = None,
        enabled: bool | None = None,
    ) -> Schedule:
        """Change what is given, and when it is due next."""
        run = None if task is None else order_of(task).body()
        body = {"name": name, "cron": cron, "timezone": timezone, "overlap": overlap, "enabled": enabled, "run": run}
        return await self._caller.change(Schedule, "PATCH", "schedules", schedule_id, body=body)

    async def delete(self, schedule_id: str) -> None:
        """Remove a schedule; its runs stay, and go on."""
        await self._caller.delete("schedules", schedule_id)

    async def trigger(self, schedule_id: str) -> Run:
        """Submit its run now. It is asked for once."""
        return await self._caller.post(Run, "schedules", schedule_id, "trigger")


class Schedules(Blocking[AsyncSchedules]):
    """See `AsyncSchedules`."""

    create = blocking(AsyncSchedules.create)
    list = blocking(AsyncSchedules.list)
    iterate = iterating(AsyncSchedules.iterate)
    get = blocking(AsyncSchedules.get)
    change = blocking(AsyncSchedules.change)
    delete = blocking(AsyncSchedules.delete)
    trigger = blocking(AsyncSchedules.trigger)
