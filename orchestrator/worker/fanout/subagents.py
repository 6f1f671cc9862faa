"""The subagents of an agent that work in forks of its sandbox: one fan-out for each answer that calls them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from orchestrator.agent.forks import Worked
from orchestrator.agentspec import AgentSpec
from orchestrator.spec import RunSpec
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.order import SUBAGENTS, FanOutOrder, Folded, NewChild
from sandboxes.providers.base import Capabilities

if TYPE_CHECKING:
    from orchestrator.agent.harness.fan_out import TaskCall
    from orchestrator.worker.fanout.operation import FanOut

class SubagentForks:
    """See `orchestrator.agent.fanning.Forks`."""

    def __init__(self, work: Assignment, agent: AgentSpec, operation: Callable[[], FanOut], capabilities: Capabilities) -> None:
        self._work = work
        self._agent = agent
        self._operation = operation
        self._named = {one.name: one for one in agent.subagents}
        deep = work.run.depth >= work.policy.fan_out.max_depth
        self._default = "fork" if capabilities.native_fork and not deep else "shared"

    @property
    def any(self) -> bool:
        """Whether there is a subagent that works in a fork."""
        return any(self.takes(name) for name in ("general-purpose", *self._named))

    def takes(self, subagent_type: str) -> bool:
        """See `Forks`."""
        return (self._agent.isolation_of(subagent_type) or self._default) == "fork"

    async def run(self, answer_id: str, calls: Sequence[TaskCall]) -> Sequence[Worked]:
        """See `Forks`."""
        names = _names(calls)
        folded = await self._operation().run(self._order(answer_id, calls, names))
        return [_worked(folded, name) for name in names]

    def _order(self, answer_id: str, calls: Sequence[TaskCall], names: Sequence[str]) -> FanOutOrder:
        digest = hashlib.sha256(answer_id.encode()).hexdigest()[:16]
        return FanOutOrder(
            key=f"{self._work.run.epoch}-{SUBAGENTS}-{digest}",
            children=tuple(self._child(call, name) for call, name in zip(calls, names, strict=True)),
            max_parallel=self._agent.max_parallel,
            on_child_failure=self._agent.on_child_failure,
            merge=self._agent.merge,
        )

    def _child(self, call: TaskCall, name: str) -> NewChild:
        model_file = self._work.folder.model_file
        content = model_file.read_bytes() if model_file.exists() else None
        return NewChild(name, self._spec(call, name), content)

    def _spec(self, call: TaskCall, name: str) -> RunSpec:
        """The task of a subagent: its instructions, and what else the main agent's has."""
        named = self._named.get(call.subagent_type)
        agent = self._agent.model_copy(
            update={
                "prompt": call.description,
                "model": (named.model if named else None) or self._agent.model,
                "system_prompt": named.system_prompt if named else None,
                "subagents": (),
                "memory": (),
            }
        )
        return self._work.spec.subagent(name, agent)


def _names(calls: Sequence[TaskCall]) -> list[str]:
    """A name for each call, by which people and the agent tell them apart: the subagent's, numbered where it has several."""
    often = Counter(call.subagent_type for call in calls)
    seen: Counter[str] = Counter()
    names = []
    for kind in (call.subagent_type for call in calls):
        seen[kind] += 1
        names.append(f"{kind}-{seen[kind]}" if often[kind] > 1 else kind)
    return names


def _worked(folded: Folded, name: str) -> Worked:
    """What the agent is told of one subagent."""
    prefix = f"{name}/"
    conflicts = {path: text.encode() for path, text in folded.files.items() if path.startswith(prefix)}
    report, summary = folded.reports.get(name, ""), folded.summaries.get(name, "")
    failed = name in folded.failed
    said = f"Error: the subagent failed: {report}" if failed else report
    return Worked(f"{said}\n\n[{summary}]" if summary else said, failed, conflicts)
