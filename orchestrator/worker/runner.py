"""One run from start to end: claim it, watch over it, try it, record how it ended."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from orchestrator.errors import InfrastructureError, RunTimedOut, StaleLease
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.files import RunFolder
from orchestrator.runs.history import history
from orchestrator.runs.labels import RUN_LABEL
from orchestrator.runs.leases import MAX_LOST
from orchestrator.runs.models import Lease, Run
from orchestrator.runs.prices import load_prices
from orchestrator.runs.store import Store, now
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.worker.attempt import DESTROY_TIMEOUT, Assignment, Attempt, provider_for
from orchestrator.worker.outcome import SUCCESS, Outcome, outcome_of
from orchestrator.worker.recorder import Recorder
from orchestrator.worker.redact import Redactor
from orchestrator.worker.watch import Watch

logger = logging.getLogger(__name__)

STOP_TIMEOUT = DESTROY_TIMEOUT + 15.0
"""Seconds that a stopped attempt has for killing its command and destroying its sandbox."""


class Runner:
    """Executes runs, as many at once as it is asked to, on one event loop."""

    def __init__(self, settings: Settings, store: Store, worker_id: str) -> None:
        self._settings = settings
        self._store = store
        self._worker_id = worker_id
        self._prices = load_prices(settings.prices)
        self._artifacts = ArtifactStore(settings.artifacts, settings.spool_dir)
        self._artifacts.check(store.installation())

    async def execute(self, run_id: str) -> None:
        """Execute a run, unless another worker has it or it has ended."""
        lease = await asyncio.to_thread(self._store.claim, run_id, self._worker_id)
        if lease is None:
            logger.info("%s: has ended, or another worker has it", run_id)
            return
        run = await asyncio.to_thread(self._store.get, run_id)
        folder = RunFolder.of(self._settings.runs_dir, run_id)
        logger.info("%s: begins, lease %d", run_id, lease.token)
        try:
            outcome = await self._outcome(run, lease, folder)
            await asyncio.to_thread(self._store.finish, lease, outcome.status, outcome.error)
        except StaleLease as exc:
            logger.warning("%s", exc)
            return
        folder.forget_secrets()
        logger.info("%s: %s", run_id, outcome.status)

    async def _outcome(self, run: Run, lease: Lease, folder: RunFolder) -> Outcome:
        """How the run ended, whatever happened. Raises `StaleLease` when another worker took it over."""
        if run.lost >= MAX_LOST:
            return outcome_of(InfrastructureError(await asyncio.to_thread(self._given_up, run.id)))
        try:
            return await self._execute_claimed(run, lease, folder)
        except StaleLease:
            raise
        except Exception as exc:
            logger.exception("%s: failed outside of its attempts", run.id)
            return outcome_of(exc)

    def _given_up(self, run_id: str) -> str:
        past = history(self._store.attempts(run_id))
        return f"the workers of this run died {MAX_LOST} times; it is given up\n{past}"

    async def _execute_claimed(self, run: Run, lease: Lease, folder: RunFolder) -> Outcome:
        secrets = folder.read_secrets()
        redactor = Redactor(secrets.values)
        recorder = Recorder(self._store, lease, redactor)
        watch = Watch(self._store, lease)
        try:
            spec = RunSpec.model_validate(run.spec)
            work = Assignment(
                run.id, spec, folder, secrets, lease, self._settings, self._store, self._artifacts, self._prices, recorder
            )
            await self._remove_leftovers(run, spec, recorder)
            outcome = await self._supervise(work, run, watch)
        finally:
            await watch.close()
            await recorder.close()
        return outcome.told_through(redactor.text)

    async def _supervise(self, work: Assignment, run: Run, watch: Watch) -> Outcome:
        """Run the attempts until they end, time is up, or somebody asks for the end."""
        attempts = asyncio.create_task(self._attempts(work, run.attempt))
        remaining = work.spec.timeout - (now() - (run.started_at or now())).total_seconds()
        ends: list[asyncio.Future[Any]] = [attempts, watch.stopped]
        try:
            await asyncio.wait(ends, timeout=max(0.0, remaining), return_when=asyncio.FIRST_COMPLETED)
            if attempts.done():
                return attempts.result()
            if not watch.stopped.done():
                return outcome_of(RunTimedOut(f"the run used up its timeout of {work.spec.timeout:g} s"))
            reason = watch.stopped.result()
            if isinstance(reason, StaleLease):
                raise reason
            return outcome_of(reason)
        finally:
            if not attempts.done():
                attempts.cancel()
                await asyncio.wait([attempts], timeout=STOP_TIMEOUT)

    async def _attempts(self, work: Assignment, number: int) -> Outcome:
        """Try, and try again as often as the spec allows."""
        left = work.spec.retries
        while True:
            outcome = (await self._attempt(work, number)).told_through(work.recorder.redactor.text)
            if outcome.error is None or not outcome.worth_a_retry or not left:
                return outcome
            reason = outcome.error.message
            work.recorder.log("warning", f"attempt {number} failed: {reason}; trying again, {left} more at most")
            left -= 1
            number = await asyncio.to_thread(self._store.next_attempt, work.lease, outcome.error)

    async def _attempt(self, work: Assignment, number: int) -> Outcome:
        try:
            await Attempt(work, number).run()
        except StaleLease:
            raise
        except Exception as exc:
            outcome = outcome_of(exc)
            if outcome.unexpected:
                logger.exception("%s: unexpected error", work.run_id)
            return outcome
        return SUCCESS

    async def _remove_leftovers(self, run: Run, spec: RunSpec, recorder: Recorder) -> None:
        """Destroy the sandboxes of a worker that died with this run."""
        if run.attempt <= 1:
            return
        recorder.log("warning", f"the worker of attempt {run.attempt - 1} died; the run begins again")
        try:
            provider = provider_for(spec.sandbox.provider, self._settings)
            async with asyncio.timeout(DESTROY_TIMEOUT):
                for handle in await provider.find({RUN_LABEL: run.id}):
                    await provider.destroy(handle)
                await provider.aclose()
        except Exception as exc:  # the attempt itself will tell what is wrong with the provider
            recorder.log("error", f"a sandbox of the dead worker may be left: {exc}")
