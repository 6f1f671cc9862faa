"""A fan-out from its beginning to its end, or from where the worker before left it: see the package."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import RunCancelled
from orchestrator.runs.family import COMMITS, Family
from orchestrator.runs.family import FanOut as Noted
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.collect import Collector
from orchestrator.worker.fanout.asking import finished
from orchestrator.worker.fanout.base import Base, BaseChanged
from orchestrator.worker.fanout.brood import Brood
from orchestrator.worker.fanout.commits import bring_commits
from orchestrator.worker.fanout.folding import Folding
from orchestrator.worker.fanout.order import ASKING, ChildEnd, FanOutOrder, Folded
from orchestrator.worker.fanout.origin import ForkOrigin
from orchestrator.worker.fanout.plan import Plan
from orchestrator.worker.fanout.source import Source
from orchestrator.worker.fanout.telling import keep_patches, keep_reports, told, unchanged
from orchestrator.worker.fanout.trial import Trials, apply_all
from orchestrator.worker.lodging import Lodging
from orchestrator.worker.scratch import scratch
from sandboxes.sandbox import Sandbox


class FanOut:
    """The fan-outs of one attempt."""

    def __init__(self, work: Assignment, lodging: Lodging, sandbox: Sandbox, collector: Collector) -> None:
        self._work = work
        self._lodging = lodging
        self._sandbox = sandbox
        self._collector = collector
        self._family = Family(work.store.engine)

    async def run(self, order: FanOutOrder) -> Folded:
        """Execute the children, merge what they changed, and apply it; or tell what came of that, when it is done already.

        Raises `BadInput` for more than a run may fan out, `InfrastructureError`, or an error of the `sandboxes` package.
        """
        work = self._work
        noted = await asyncio.to_thread(self._family.fan_out, work.run.id, order.key)
        source = Source(self._lodging, work.run.id)
        if noted is not None and noted.result is not None:
            await source.clear()
            return Folded.from_json(noted.result)
        brood = Brood(work, order)
        await brood.begin()
        base = await self._base(order.key, noted)
        if noted is not None:
            await source.clear()
        fork = ForkOrigin(source, base, self._lodging.inputs)
        try:
            ends = await brood.ends(fork)
            if await asyncio.to_thread(work.store.cancel_requested, work.run.id):  # the children may hear of it first
                raise RunCancelled(f"run {work.run.id} was cancelled")
            asked = await finished(work, order.key, fork) if noted is not None else []
            await source.go_on([*brood.ids, *asked])
            folded = await self._fold(order, noted, fork, ends)
        finally:
            await source.still()  # what is only being made when the run ends must not outlive it
        if ("merge.finished", order.key) not in work.past.fan_outs:
            sums = {"merged": folded.merged, "conflicts": folded.conflicts, "left_out": list(folded.left_out)}
            work.recorder.emit("merge.finished", {"key": order.key, **sums})
            await work.recorder.flush()
        await asyncio.to_thread(self._family.note_result, work.lease, order.key, folded.to_json())
        await source.clear()  # not before: another worker may have the run by now, and sandboxes for its own trials
        return folded

    async def _base(self, key: str, noted: Noted | None) -> Base:
        """What the workspace holds now, or what was noted of it before the first child was forked."""
        work = self._work
        if noted is not None and noted.base is not None:
            return await asyncio.to_thread(Base.kept, work.artifacts, noted.base)
        base = await Base.of(self._sandbox, work.spec.inputs.exclude if work.spec.inputs else ())
        artifact = await base.keep(work.artifacts, work.run.id, key)
        await asyncio.to_thread(self._family.note_base, work.lease, key, artifact)
        return base

    async def _fold(
        self, order: FanOutOrder, noted: Noted | None, fork: ForkOrigin, ends: Sequence[ChildEnd]
    ) -> Folded:
        """Merge and apply. Where the workspace is not what it was, nothing of it is changed."""
        async with scratch(self._work.folder, self._work.lease, f"fan-out-{order.key}") as place:
            return await self._folded(order, noted, fork, ends, place)

    async def _folded(
        self, order: FanOutOrder, noted: Noted | None, fork: ForkOrigin, ends: Sequence[ChildEnd], place: Path
    ) -> Folded:
        try:
            plan = await self._plan(order, noted, fork, ends, place)
            if not plan.folded.applied:
                return plan.folded
            await apply_all(self._sandbox, plan.edits, plan.contents, call_id=f"{self._work.task_id}:{order.key}:apply")
            await self._bring_commits([end for end in ends if end.name not in (*plan.folded.failed, *plan.folded.left_out)])
            return plan.folded
        except BaseChanged as exc:
            folding = Folding(self._work, order, self._sandbox, Trials(self._lodging, fork.source), fork, place / "refused")
            children = await folding.children(ends)
            await keep_patches(self._collector, folding.tree, children.values())
            return unchanged(ends).refused(f"the workspace was changed meanwhile: {exc}")

    async def _bring_commits(self, ends: Sequence[ChildEnd]) -> None:
        """Have what these children committed in the repository of the workspace, as refs."""
        work = self._work
        for end in ends:
            sha256 = await asyncio.to_thread(self._family.work, end.run.id, COMMITS)
            if sha256 is not None:
                problem = await bring_commits(self._sandbox, end.name, work.artifacts.stream(sha256))
                level, told = ("warning", f"not brought over: {problem}") if problem else ("info", "below refs/fanfold/")
                work.recorder.log(level, f"commits of {end.name}: {told}")

    async def _plan(
        self, order: FanOutOrder, noted: Noted | None, fork: ForkOrigin, ends: Sequence[ChildEnd], place: Path
    ) -> Plan:
        """What is to be done: what was noted, or what the children's work comes to, which is noted then."""
        work = self._work
        if noted is not None and noted.plan is not None:
            return await asyncio.to_thread(Plan.kept, work.artifacts, noted.plan, place / "plan")
        folding = Folding(work, order, self._sandbox, Trials(self._lodging, fork.source), fork, place / "merged")
        children = await folding.children(ends)
        merged = await folding.merged(ends, [children[end.name] for end in ends if end.succeeded])
        await keep_reports(self._collector, await self._report_name(order.key), merged, ends, children)
        folded = await asyncio.to_thread(told, merged, ends, children)
        plan, artifact = await asyncio.to_thread(
            Plan.keep, merged.result, folded, work.artifacts, work.run.id, order.key, place / "packed"
        )
        await asyncio.to_thread(self._family.note_plan, work.lease, order.key, artifact)
        return plan

    async def _report_name(self, key: str) -> str:
        """`merge`, or for the fan-outs of an agent, which has many, a number as well."""
        if self._work.spec.fan_out is not None:
            return "merge"
        noted = await asyncio.to_thread(self._family.fan_outs, self._work.run.id)
        keys = [one.key for one in noted if not one.key.endswith(f"-{ASKING}")]
        return f"merge-{keys.index(key) + 1}"
