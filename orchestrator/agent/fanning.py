"""Between an agent whose subagents work in forks of its sandbox and whoever forks: one fan-out for all calls of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from orchestrator.agent.forks import Forks, Worked
from orchestrator.agent.harness.fan_out import Answer, Report, TaskCall
from sandboxes.backends.composite import CompositeBackend
from sandboxes.backends.keyed.filedata import stored
from sandboxes.backends.state import StateBackend
from sandboxes.protocol import BackendProtocol

CONFLICTS = "/conflicts/"
"""Where an agent finds what could not be merged, beside the files of its sandbox."""


def with_conflicts(backend: BackendProtocol) -> CompositeBackend:
    """A backend with a place for what could not be merged. It is in the agent's state, not in the sandbox."""
    return CompositeBackend(backend, {CONFLICTS: StateBackend()})


class Fanning(AgentMiddleware[AgentState[Any], None, Any]):
    """A `FanOut` over `Forks`. As the outermost middleware it sees which tool calls are at work in the sandbox."""

    def __init__(self, forks: Forks) -> None:
        super().__init__()
        self._forks = forks
        self._under_way: dict[str, asyncio.Task[Sequence[Worked]]] = {}
        self._at_work = 0
        self._still = asyncio.Event()
        self._still.set()

    def takes(self, subagent_type: str) -> bool:
        """See `FanOut`."""
        return self._forks.takes(subagent_type)

    async def __call__(self, call: TaskCall, answer: Answer) -> Report:
        """See `FanOut`."""
        calls = [one for one in answer.calls if self.takes(one.subagent_type)]
        if answer.id not in self._under_way:
            self._under_way[answer.id] = asyncio.create_task(self._run(answer.id, calls))
        shared = self._under_way[answer.id]
        try:
            came = await asyncio.shield(shared)
        except asyncio.CancelledError:
            shared.cancel()
            await asyncio.wait([shared])
            raise
        return _report(came[calls.index(call)])

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """Know of the call while it is at work."""
        if request.tool_call["name"] == "task" and self.takes(str(request.tool_call["args"].get("subagent_type"))):
            return await handler(request)
        self._at_work += 1
        self._still.clear()
        try:
            return await handler(request)
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._still.set()

    async def _run(self, answer_id: str, calls: Sequence[TaskCall]) -> Sequence[Worked]:
        await asyncio.sleep(0)  # the other calls of the answer have begun by now, and are known
        await self._still.wait()
        return await self._forks.run(answer_id, calls)


def _report(worked: Worked) -> Report:
    files = {f"/{path}": stored(path, content) for path, content in worked.conflicts.items()}
    return Report(worked.text, worked.failed, {"files": files} if files else {})
