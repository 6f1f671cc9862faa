"""One run from start to end: claim it, watch over it, work on it, record how it ended or who goes on with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.errors import InfrastructureError, RecordUnavailable, StaleLease
from orchestrator.policy import load_policy
from orchestrator.redact import Redactor
from orchestrator.runs.artifacts import ArtifactStore
from orchestrator.runs.family import Family
from orchestrator.runs.files import RunFolder
from orchestrator.runs.frozen import FrozenFiles
from orchestrator.runs.granting import Granting
from orchestrator.runs.history import history
from orchestrator.runs.keeping import Keeping
from orchestrator.runs.labels import RUN_LABEL
from orchestrator.runs.leases import MAX_LOST
from orchestrator.runs.models import AttemptStatus, Event, Lease, Run
from orchestrator.runs.prices import load_prices
from orchestrator.runs.store import Store
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from orchestrator.telemetry.process import Telemetry
from orchestrator.telemetry.redaction import MIN_SECRET
from orchestrator.vault import Vault
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.breaker import Breakers
from orchestrator.worker.execution import Asked, Execution
from orchestrator.worker.frozen import bring_secrets
from orchestrator.worker.kin import Origin
from orchestrator.worker.outcome import Outcome, outcome_of
from orchestrator.worker.past import Past, past_of
from orchestrator.worker.recorder import Recorder
from orchestrator.worker.watch import Handover, Pulse, StopReason, Watch
from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.registry import get_provider

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Claim:
    """A run that is this worker's."""

    run: Run
    lease: Lease
    origin: Origin | None = None


class Runner:
    """Executes runs, as many at once as it is asked to, on one event loop."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        worker_id: str,
        *,
        nudge: Callable[[str], None],
        tell: Callable[[str], None] = lambda run_id: None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """`nudge` calls a worker for a run that this one leaves; `tell` tells whoever waits for it that a run has ended."""
        self._telemetry = telemetry or Telemetry()
        self._settings = settings
        self._store = store
        self._worker_id = worker_id
        self._nudge = nudge
        self._tell = tell
        self._prices = load_prices(settings.prices)
        self._artifacts = ArtifactStore(settings.artifacts, settings.spool_dir)
        self._artifacts.check(store.installation())
        self._vault = Vault(settings)
        self._frozen = FrozenFiles(store, self._artifacts, shared=settings.artifacts_url is not None)
        self._frozen.sweep(settings.runs_dir)
        self._policy = load_policy(settings.policy)
        self._breakers = Breakers(self._policy, self._telemetry.metrics)
        self._families = Family(store.engine)
        self._granting = Granting(store.engine, self._policy)
        self._pulse = Pulse(store)
        self._watches: dict[Lease, Watch] = {}
        """By claim: a run whose lease was lost may be claimed here again before the first claim has come to its end."""
        self._leaving = False

    def hand_over(self) -> None:
        """Leave every run to other workers, and take no more. Called on the loop."""
        self._leaving = True
        for watch in self._watches.values():
            watch.hand_over()

    async def execute(self, run_id: str) -> None:
        """Execute a run, unless another worker has it or it has ended."""
        if self._leaving:  # the controller finds that nobody has come for it
            return
        lease = await asyncio.to_thread(self._store.claim, run_id, self._worker_id)
        if lease is None:
            await self._clear_up(run_id)
            return
        await self._work_on(_Claim(await asyncio.to_thread(self._store.get, run_id), lease))

    # Children of runs that are executed here: see `Executor`

    async def grant(self, run_id: str) -> Lease | None:
        """Claim a child, if there is room for it now; a worker that leaves takes none."""
        return None if self._leaving else await asyncio.to_thread(self._granting.grant, run_id, self._worker_id)

    async def execute_child(self, run: Run, lease: Lease, origin: Origin) -> None:
        """Work on a child until it has ended, or is left."""
        await self._work_on(_Claim(run, lease, origin))

    def stop_child(self, lease: Lease, reason: StopReason) -> None:
        """Have a child stop that is being executed."""
        if (watch := self._watches.get(lease)) is not None:
            watch.stop(reason)

    async def _clear_up(self, run_id: str) -> None:
        """A run that ended while it waited for a person may have left its sandbox; any other has a worker, or needs none."""
        run = await asyncio.to_thread(self._store.get, run_id)
        attempts = await asyncio.to_thread(self._store.attempts, run_id) if run.status.terminal else []
        if not attempts or attempts[-1].status is not AttemptStatus.INTERRUPTED:
            logger.info("%s: has ended, or another worker has it", run_id)
            return
        provider = get_provider(run.provider, home=self._settings.home)
        try:
            for handle in await provider.find({RUN_LABEL: run_id}):
                if not await asyncio.to_thread(Keeping(self._store.engine).is_kept, handle.id):
                    await provider.destroy(handle)
        except FanfoldSandboxError as exc:  # the reaper finds it
            logger.warning("%s: what it has left was not ended: %s", run_id, exc)
        finally:
            await provider.aclose()

    async def _work_on(self, claim: _Claim) -> None:
        with self._telemetry.run(claim.run):
            await self._hold_on(claim)

    async def _hold_on(self, claim: _Claim) -> None:
        """Work on a run as long as it is ours."""
        run = claim.run
        logger.info("%s: begins, lease %d", run.id, claim.lease.token)
        if run.attempt == 1 and run.started_at and claim.origin is None:  # a child waits for its siblings, not for a worker
            self._telemetry.metrics.run_started((run.started_at - run.created_at).total_seconds())
        try:
            await self._execute(claim)
        except (StaleLease, RecordUnavailable) as exc:
            self._telemetry.metrics.lease_lost()
            logger.warning("%s: left to another worker: %s", run.id, exc)
        except Handover:
            await asyncio.to_thread(self._release, claim)

    async def _execute(self, claim: _Claim) -> None:
        """Work on a run, and record what came of it. Raises `StaleLease`, `Handover` or `RecordUnavailable`."""
        run = claim.run
        folder = RunFolder.of(self._settings.runs_dir, run.id, self._vault)
        outcome = await self._outcome(claim, folder)
        if outcome is None:
            logger.info("%s: waits for a decision", run.id)
            return
        ended = await asyncio.to_thread(self._finish, claim.lease, outcome)
        if ended.started_at and ended.finished_at:
            self._telemetry.metrics.run_finished(outcome.status, (ended.finished_at - ended.started_at).total_seconds())
        folder.forget_secrets()
        await asyncio.to_thread(self._frozen.release, run.id, folder)
        if run.may_have_children:
            await asyncio.to_thread(self._forget_children, run.id)
        logger.info("%s: %s", run.id, outcome.status)

    def _forget_children(self, run_id: str) -> None:
        """Remove the secrets of children that ended with their parent, and that nobody executed then."""
        for child in self._families.tree(run_id):
            RunFolder.of(self._settings.runs_dir, child.id).forget_secrets()

    def _finish(self, lease: Lease, outcome: Outcome) -> Run:
        ended = self._store.finish(lease, outcome.status, outcome.error)
        with suppress(InfrastructureError):  # who waits for it looks now and then
            self._tell(lease.run_id)
        return ended

    async def _outcome(self, claim: _Claim, folder: RunFolder) -> Outcome | None:
        """How the run ended, whatever happened; None when it waits for a person."""
        run = claim.run
        if run.lost >= MAX_LOST:
            return outcome_of(InfrastructureError(await asyncio.to_thread(self._given_up, run.id)))
        try:
            return await self._execute_claimed(claim, folder)
        except (StaleLease, RecordUnavailable, Handover):
            raise
        except Exception as exc:
            logger.exception("%s: failed outside of its attempts", run.id)
            return outcome_of(exc).told_through(self._telemetry.masks.text)

    async def _execute_claimed(self, claim: _Claim, folder: RunFolder) -> Outcome | None:
        run, lease = claim.run, claim.lease
        spec = RunSpec.model_validate(run.spec)
        secrets = await bring_secrets(self._frozen, run.id, spec, folder)
        redactor = await asyncio.to_thread(Redactor, secrets.values)
        self._telemetry.masks.hold(run.id, redactor.text)
        recorder = Recorder(self._store, lease, redactor)
        watch = self._pulse.watch(lease)
        self._watches[lease] = watch
        if self._leaving:  # the word came between the claim and here
            watch.hand_over()
        try:
            work = Assignment(
                run=run, spec=spec, folder=folder, secrets=secrets, lease=lease, settings=self._settings, store=self._store,
                artifacts=self._artifacts, prices=self._prices, frozen=self._frozen, recorder=recorder, watch=watch,
                executor=self, policy=self._policy, breakers=self._breakers, origin=claim.origin, telemetry=self._telemetry,
                past=await self._past(run),
            )  # fmt: skip
            if redactor.left and run.attempt == 1:
                recorder.log("warning", f"{redactor.left} of the secrets are shorter than {MIN_SECRET} characters: not hidden")
            ending = await self._supervise(work)
        finally:
            del self._watches[lease]
            watch.close()
            await recorder.abandon()
        return ending.told_through(redactor.text) if ending is not None else None

    async def _supervise(self, work: Assignment) -> Outcome | None:
        """Execute a claimed run, and record what it asks, when it asks a person."""
        execution = Execution(work)
        ending = await execution.run()
        await work.recorder.close()
        if not isinstance(ending, Asked):
            return ending
        question = (ending.question, ending.decide_by, ending.snapshot)
        await asyncio.to_thread(self._store.interrupt, work.lease, *question)
        await execution.part(ending)
        return None

    async def _past(self, run: Run) -> Past:
        """What this run has told, where it goes on with what an earlier attempt began."""
        if run.epoch == run.attempt:
            return Past()
        return await asyncio.to_thread(lambda: past_of(self._events(run.id), run.epoch))

    def _events(self, run_id: str) -> list[Event]:
        found: list[Event] = []
        while page := self._store.events(run_id, found[-1].seq if found else 0):
            found += page
        return found

    def _given_up(self, run_id: str) -> str:
        past = history(self._store.attempts(run_id))
        return f"the workers of this run died {MAX_LOST} times; it is given up\n{past}"

    def _release(self, claim: _Claim) -> None:
        """Let another worker have the run at once. Where that fails, it has it when the lease has run out."""
        run_id = claim.run.id
        try:
            self._store.release(claim.lease)
            if claim.origin is None:  # for a child comes whoever has its parent
                self._nudge(run_id)
        except InfrastructureError as exc:
            logger.warning("%s: not handed over, but left: %s", run_id, exc)
        else:
            logger.info("%s: handed over", run_id)
