"""What a run uses, recorded as it is used, and stopped when its budget is used up."""

from __future__ import annotations

import asyncio

from orchestrator.errors import BudgetExceeded, InfrastructureError, RecordUnavailable, StaleLease
from orchestrator.runs.spent import Spent
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.meter import Meter

LOOK_EVERY = 1.0
"""Seconds between two looks at the time of the sandbox, where there is a budget for it."""


class Spending:
    """Of one attempt. Used on one event loop, but for the meter's calls."""

    def __init__(self, work: Assignment, number: int, meter: Meter) -> None:
        self._work = work
        self._number = number
        self._meter = meter
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        meter.listen(self._tell)

    def _tell(self) -> None:
        """In whatever thread the model was called."""
        self._loop.call_soon_threadsafe(self._news.set)

    async def watch(self) -> None:
        """Record what is used, until the budget is used up: raises `BudgetExceeded` then."""
        budget = self._work.spec.budget
        every = LOOK_EVERY if budget.sandbox_seconds is not None else None
        spent = await asyncio.to_thread(self._work.store.spent, self._work.run.id)  # others of its tree may have used all
        while True:
            if (used_up := spent.over(budget)) is not None:
                raise BudgetExceeded(used_up)
            try:
                await asyncio.wait_for(self._news.wait(), every)
            except TimeoutError:
                spent = await asyncio.to_thread(self._work.store.spent, self._work.run.id)
            else:
                self._news.clear()
                spent = await self._record()

    async def close(self) -> None:
        """Record the rest, and how long there was a sandbox. Raises `StaleLease` or `RecordUnavailable`."""
        work = self._work
        try:
            await self._record()
            if seconds := self._meter.sandbox_seconds:
                await asyncio.to_thread(work.store.record_time, work.lease, self._number, seconds)
        except (StaleLease, RecordUnavailable):
            raise
        except InfrastructureError as exc:  # the attempt's own outcome matters more
            work.recorder.log("error", f"what attempt {self._number} used could not be recorded: {exc}")

    async def _record(self) -> Spent:
        used = self._meter.take()
        if not used:
            return Spent()
        self._work.telemetry.metrics.models_used(self._work.run.tenant, used)
        return await asyncio.to_thread(self._work.store.add_usage, self._work.lease, self._number, used)
