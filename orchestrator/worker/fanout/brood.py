"""The children of one fan-out, from the record to their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from orchestrator.runs.family import Family
from orchestrator.runs.models import Run
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.children import ends_of, prepared
from orchestrator.worker.fanout.nursery import Nursery
from orchestrator.worker.fanout.order import ChildEnd, FanOutOrder
from orchestrator.worker.kin import Origin


class Brood:
    """Used once; `begin` comes before `ends`."""

    def __init__(self, work: Assignment, order: FanOutOrder) -> None:
        self._work = work
        self._order = order
        self._family = Family(work.store.engine)
        self._children: Sequence[Run] = ()

    @property
    def ids(self) -> list[str]:
        """Of the children's runs."""
        return [child.id for child in self._children]

    async def begin(self) -> None:
        """Have the children in the record. Raises `BadInput` when they are more than the policy allows, or `StaleLease`."""
        work, order, caps = self._work, self._order, self._work.policy.fan_out
        children = await asyncio.to_thread(self._family.children, work.run.id, order.key)
        if not children:
            most = {"max_depth": caps.max_depth, "max_runs": caps.max_children + 1}
            with prepared(work, order) as new:
                children = await asyncio.to_thread(self._family.begin, work.lease, order.key, new, **most)
        if ("fan_out.started", order.key) not in work.past.fan_outs:
            told = [{"run": child.id, "name": child.name} for child in children]
            work.recorder.emit("fan_out.started", {"key": order.key, "children": told})
        self._children = children

    async def ends(self, origin: Origin) -> Sequence[ChildEnd]:
        """The children when all of them have ended, in task order; see `Nursery.raise_all`."""
        most, order = self._work.policy.fan_out.max_parallel, self._order
        parallel = min(order.max_parallel or most, most)
        nursery = Nursery(self._work, origin, max_parallel=parallel, on_child_failure=order.on_child_failure)
        return await asyncio.to_thread(ends_of, self._work, await nursery.raise_all(self._children))
