"""The fan-out of a task file."""

from __future__ import annotations

import asyncio

from orchestrator.errors import BudgetExceeded, TaskFailed
from orchestrator.modelfiles import child_model_file, file_of
from orchestrator.spec import RunSpec
from orchestrator.text import count, names
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.operation import FanOut
from orchestrator.worker.fanout.order import FanOutOrder, NewChild


async def fan_out(work: Assignment, operation: FanOut) -> None:
    """Do what `fan_out` of the task says. Raises `TaskFailed` when it has not reached its goal, and as `FanOut.run`."""
    declared = work.spec.fan_out
    assert declared is not None
    folded = await operation.run(_order(work))
    spent = await asyncio.to_thread(work.store.spent, work.run.id)
    if (used_up := spent.over(work.spec.budget)) is not None:
        raise BudgetExceeded(used_up)
    if folded.problem:
        raise TaskFailed(f"nothing was merged: {folded.problem}")
    if (folded.conflicts or folded.left_out) and declared.merge.on_conflict == "fail":
        raise TaskFailed(
            f"{count(folded.conflicts, 'conflict')} left, and not merged: {names(folded.left_out) or 'nobody'}"
            " (fan_out.merge.on_conflict: fail); merge.md tells which"
        )
    if folded.failed and (work.spec.verify is None or declared.on_child_failure == "cancel"):
        raise TaskFailed(f"children failed: {names(folded.failed)}; a `verify` would have the last word (fan_out)")


def _order(work: Assignment) -> FanOutOrder:
    declared = work.spec.fan_out
    assert declared is not None
    return FanOutOrder(
        key=f"{work.run.epoch}-fan-out",
        children=tuple(_child(work, work.spec.child(one)) for one in declared.children()),
        max_parallel=declared.max_parallel,
        on_child_failure=declared.on_child_failure,
        merge=declared.merge,
    )


def _child(work: Assignment, spec: RunSpec) -> NewChild:
    played = spec.agent is not None and file_of(spec.agent.model)
    model_file = child_model_file(work.folder, spec.agent.model) if spec.agent is not None and played else None
    return NewChild(spec.name, spec, model_file)
