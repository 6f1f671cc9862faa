"""Executing the children of a fan-out, as many at once as there is room for, until the last one has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from orchestrator.errors import RecordUnavailable, RunCancelled, StaleLease
from orchestrator.runs.models import Lease, Run, RunStatus
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.order import OnChildFailure
from orchestrator.worker.kin import Origin
from orchestrator.worker.watch import Handover, StopReason

ROOM_POLL = 0.2
"""Seconds between two looks whether there is room for a child that waits."""


class Nursery:
    """Used on the event loop of the run's worker."""

    def __init__(self, work: Assignment, origin: Origin, *, max_parallel: int, on_child_failure: OnChildFailure) -> None:
        self._work = work
        self._origin = origin
        self._places = asyncio.Semaphore(max_parallel)
        self._on_child_failure = on_child_failure
        self._one_ended = asyncio.Event()
        self._stopping = False
        self._at_work: dict[str, Lease] = {}
        """By child."""

    async def raise_all(self, children: Sequence[Run]) -> list[Run]:
        """Execute these children, those that have not ended; all of them as they ended, in their order.

        When it is cancelled they are stopped for the reason for which their parent stops, and have ended, or are left to
        another worker, before it returns. Raises what the record raises.
        """
        tasks = [asyncio.create_task(self._raise(child, children)) for child in children]
        try:
            # `gather` would cancel them with us, and a child that is cancelled neither ends nor is handed over.
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()
            return [task.result() for task in tasks]
        except BaseException as exc:
            await self._stop(tasks, exc)
            raise

    async def _raise(self, child: Run, siblings: Sequence[Run]) -> Run:
        async with self._places:
            while not child.status.terminal and not self._stopping:
                await self._move_on(child)
                child = await asyncio.to_thread(self._work.store.get, child.id)
            if child.status.terminal:  # before its place goes to one that it may end
                await self._take_end(child, siblings)
        return child

    async def _move_on(self, child: Run) -> None:
        """Execute a child when there is room for it; otherwise wait a moment, or until another one has ended."""
        work = self._work
        lease = await work.executor.grant(child.id)
        if lease is not None:
            claimed = await asyncio.to_thread(work.store.get, child.id)
            self._at_work[child.id] = lease
            await work.executor.execute_child(claimed, lease, self._origin)
            del self._at_work[child.id]
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._one_ended.wait(), ROOM_POLL)
        self._one_ended.clear()

    async def _take_end(self, child: Run, siblings: Sequence[Run]) -> None:
        self._one_ended.set()
        work = self._work
        if child.id not in work.past.children:
            error = child.error.message if child.error else None
            told = {"run": child.id, "name": child.name, "status": child.status.value, "error": error}
            work.recorder.emit("child.finished", told)
            work.past.children.add(child.id)
        if child.status is not RunStatus.SUCCESS and self._on_child_failure == "cancel":
            for sibling in siblings:
                await asyncio.to_thread(work.store.request_cancel, sibling.id)

    async def _stop(self, tasks: Sequence[asyncio.Task[Run]], cause: BaseException) -> None:
        """Those that wait begin no more; those that are executed stop for our own reason."""
        self._stopping = True
        self._one_ended.set()
        reason = await self._reason(cause)
        while not all(task.done() for task in tasks):
            for lease in self._at_work.values():
                self._work.executor.stop_child(lease, reason)
            await asyncio.wait(tasks, timeout=ROOM_POLL)  # one that has only just begun does not hear it yet
        await asyncio.gather(*tasks, return_exceptions=True)  # what else went wrong is no news

    async def _reason(self, cause: BaseException) -> StopReason:
        """A child ends only when its parent surely does: what was killed by mistake has failed for whoever goes on."""
        stopped = self._work.watch.stopped
        ours = self._work.leaves or (stopped.result() if stopped.done() and not stopped.cancelled() else cause)
        left = Handover("the worker leaves its parent")
        if isinstance(ours, StaleLease | RecordUnavailable | Handover):
            return left
        try:
            await asyncio.to_thread(self._work.store.heartbeat, self._work.lease)
        except (StaleLease, RecordUnavailable):
            return left
        return RunCancelled("its parent has ended")
