"""What one claim of a run does: its attempts, until they end or something else ends them, and what becomes of the sandbox.

There are three ways out. The run ends: how is noted first, then the sandbox goes, then the run is recorded as ended, so that
whoever takes over in between does nothing twice. It waits for a person: its sandbox is kept, or stored. Or it is left to
another worker, with the sandbox and all that runs in there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.errors import RecordUnavailable, RunTimedOut, StaleLease
from orchestrator.runs.models import Artifact, AttemptStatus, RunError, RunStatus
from orchestrator.runs.store import now
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.attempt import Attempt
from orchestrator.worker.lodging import DESTROY_TIMEOUT
from orchestrator.worker.outcome import SUCCESS, Outcome, Question, outcome_of
from orchestrator.worker.watch import Handover

logger = logging.getLogger(__name__)

SANDBOX_LOSSES = 2
"""How often a run begins again because its sandbox has gone, beside its retries: what it does may be what ends them."""
STOP_TIMEOUT = DESTROY_TIMEOUT + 15.0
"""Seconds that a stopped attempt has for killing its command."""


@dataclass(frozen=True)
class Asked:
    """A person has to decide: `snapshot` is set where the sandbox was given up."""

    question: dict[str, Any]
    decide_by: datetime
    snapshot: Artifact | None = None


class Execution:
    """One claim. `run` is called once."""

    def __init__(self, work: Assignment) -> None:
        self._work = work
        self._number = work.run.attempt
        self._attempt = Attempt(work, self._number)

    async def run(self) -> Outcome | Asked:
        """Work until there is an outcome, whose sandbox is gone then, or until a person is asked.

        Raises `StaleLease`, `Handover` or `RecordUnavailable` when the run is another worker's: the sandbox was left as it is.
        """
        work = self._work
        if work.run.outcome is not None:
            return await self._clear_up(Outcome.settled(work.run.outcome))
        try:
            ending = await self._supervise()
            if isinstance(ending, Question):
                return await self._ask(ending)
            return await self._end(ending)
        except (StaleLease, Handover, RecordUnavailable):
            await self._leave()
            raise

    async def _supervise(self) -> Outcome | Question:
        """Run the attempts until they end, time is up, or somebody asks for the end."""
        work, stopped = self._work, self._work.watch.stopped
        attempts = asyncio.create_task(self._attempts())
        used = (now() - (work.run.started_at or now())).total_seconds() - work.run.waited
        ends: list[asyncio.Future[Any]] = [attempts, stopped]
        try:
            await asyncio.wait(ends, timeout=max(0.0, work.spec.timeout - used), return_when=asyncio.FIRST_COMPLETED)
            if attempts.done():
                return attempts.result()
            late = RunTimedOut(f"the run used up its timeout of {work.spec.timeout:g} s")
            reason = stopped.result() if stopped.done() else late
            if isinstance(reason, StaleLease | Handover):
                raise reason
            self._attempt.lodging.stop_commands()
            return outcome_of(reason)
        finally:
            if not attempts.done():
                attempts.cancel()
                await asyncio.wait([attempts], timeout=STOP_TIMEOUT)

    async def _attempts(self) -> Outcome | Question:
        """Try, and try again as often as the spec allows."""
        work = self._work
        left = work.spec.retries - (await asyncio.to_thread(self._failures) if work.run.attempt > 1 else 0)
        losses = SANDBOX_LOSSES if work.spec.sandbox.on_loss == "restart" else 0
        while True:
            ending = await self._try()
            if isinstance(ending, Question) or ending.error is None:
                return ending
            if ending.sandbox_lost and losses > 0:
                losses -= 1
                how = "it begins again from its inputs"
            elif ending.worth_a_retry and left > 0:
                how = f"trying again, {left} more at most"
                left -= 1
            else:
                return ending
            work.recorder.log("warning", f"attempt {self._number} failed: {ending.error.message}; {how}")
            await self._begin_again(ending.error)

    async def _begin_again(self, error: RunError) -> None:
        work = self._work
        await self._attempt.spending.close()
        await work.recorder.flush()
        self._number = await asyncio.to_thread(work.store.next_attempt, work.lease, error)
        await self._attempt.lodging.clear()
        work.begin_again(self._number)
        self._attempt = Attempt(work, self._number)

    def _failures(self) -> int:
        """Attempts that failed before this claim: they count, the ones that were lost or handed over do not."""
        return sum(one.status is AttemptStatus.ERROR for one in self._work.store.attempts(self._work.run.id))

    async def _try(self) -> Outcome | Question:
        try:
            await first_of(self._attempt.run(), self._guard())
        except (StaleLease, RecordUnavailable):
            raise
        except Question as question:
            return question
        except Exception as exc:
            outcome = outcome_of(exc)
            if outcome.unexpected:
                logger.exception("%s: unexpected error", self._work.run.id)
            return outcome.told_through(self._work.recorder.redactor.text)
        return SUCCESS

    async def _guard(self) -> None:
        """Watch what is spent. Who is cancelled because the record is away can look up why."""
        try:
            await self._attempt.spending.watch()
        except (StaleLease, RecordUnavailable) as exc:
            self._work.leaves = exc
            raise

    # The ways out

    async def _end(self, outcome: Outcome) -> Outcome:
        work = self._work
        await self._attempt.spending.close()
        if outcome is not SUCCESS:  # a run that was stopped leaves what it said to its thread; one that succeeded has done so
            await self._attempt.save_conversation()
        await work.recorder.flush()  # while the sandbox is there: what cannot be written now, another worker tells
        if not self._attempt.lodging.is_empty:  # else nothing comes between the outcome and the end
            await asyncio.to_thread(work.store.settle, work.lease, outcome.status, outcome.error)
        return await self._clear_up(outcome)

    async def _clear_up(self, outcome: Outcome) -> Outcome:
        await self._attempt.lodging.clear(failed=outcome.status in (RunStatus.ERROR, RunStatus.TIMEOUT))
        return outcome

    async def _ask(self, question: Question) -> Asked:
        work = self._work
        await self._attempt.save_conversation()
        snapshot = None
        if work.spec.agent is not None and work.spec.agent.while_waiting == "snapshot":
            snapshot = await self._attempt.lodging.snapshot()
        elif work.spec.pauses:  # before anybody can decide: whoever goes on lets it go on
            await self._attempt.lodging.pause()
        await self._attempt.spending.close()
        return Asked(question.asked, question.decide_by, snapshot)

    async def part(self, asked: Asked) -> None:
        """Give up the sandbox of a run whose question is in the record."""
        if asked.snapshot is None:
            await self._attempt.lodging.leave()
        else:
            await self._attempt.lodging.clear()

    async def _leave(self) -> None:
        try:
            await self._attempt.lodging.leave()
        except Exception as exc:  # the connection is of no use to anybody any more
            logger.info("%s: the connection to its sandbox: %s", self._work.run.id, exc)


async def first_of(work: Coroutine[Any, Any, None], guard: Coroutine[Any, Any, None]) -> None:
    """Do `work`, unless `guard` raises before it is done. Neither goes on afterwards."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(guard)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
