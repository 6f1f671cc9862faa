"""Checkpoints that are recorded together: what only computes need not be noted step by step.

Most steps of an agent are hooks of its middleware, which turn its state into its state. They are held back in memory until
something is about to begin that costs, or that is seen outside: a call of the model or of a tool. What those answer is
recorded at once. A worker that dies in between has the hooks repeated, and nothing else.

    saver = HeldBackSaver(record)
    agent = create_deep_agent(..., checkpointer=saver, around=[Noted(saver)])
    await agent.ainvoke(..., durability="sync")
    await saver.aflush()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from orchestrator.agent.checkpoints import RecordSaver, after
from orchestrator.checkpoints import CheckpointRecord, Step, TaskWrites

HOOKS = ("__start__", ".before_agent", ".before_model", ".after_model", ".after_agent")
"""How the names of the tasks end that only compute; a task that is not known to is taken for one that does more."""


class HeldBackSaver(RecordSaver):
    """A `RecordSaver` that holds back what only computes. When a write has failed, every later one fails like it."""

    def __init__(self, record: CheckpointRecord) -> None:
        super().__init__(record)
        self._held = _Held()
        self._writing = threading.Lock()
        self._broken: Exception | None = None

    def flush(self) -> None:
        """Record what is held back. Raises what the record raises, `StaleLease` above all."""
        with self._writing:
            if self._broken is not None:
                raise self._broken
            if changes := self._held.take():
                try:
                    self._record.note(changes)
                except Exception as exc:
                    self._broken = exc
                    raise

    async def aflush(self) -> None:
        """`flush`, while others go on; returns when nothing is held back that was put before."""
        if self._held or self._writing.locked() or self._broken:
            await asyncio.to_thread(self.flush)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Hold back a step."""
        self._held.add_step(self._step(config, checkpoint, metadata, new_versions))
        return after(config, checkpoint)

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Hold back a step."""
        return self.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Hold back what a hook has written; record what any other task has."""
        self._held.add_writes(self._writes(config, writes, task_id, task_path))
        if not _only_computed(writes, task_path):
            self.flush()

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes`, while others go on."""
        self._held.add_writes(self._writes(config, writes, task_id, task_path))
        if not _only_computed(writes, task_path):
            await self.aflush()

    # Who reads sees what was put

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `RecordSaver`."""
        self.flush()
        return super().get_tuple(config)

    def list(self, config: RunnableConfig | None, **options: Any) -> Iterator[CheckpointTuple]:
        """See `RecordSaver`."""
        self.flush()
        yield from super().list(config, **options)

    def delete_thread(self, thread_id: str) -> None:
        """See `RecordSaver`."""
        self.flush()
        super().delete_thread(thread_id)


class Noted(AgentMiddleware[AgentState[Any], None, Any]):
    """Has everything recorded that comes before a call of the model or of a tool, before that begins."""

    def __init__(self, saver: HeldBackSaver) -> None:
        super().__init__()
        self._saver = saver

    async def awrap_model_call(
        self, request: ModelRequest[None], handler: Callable[[ModelRequest[None]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The call, when that is done. Raises what the record raises."""
        await self._saver.aflush()
        return await handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """The call, when that is done. Raises what the record raises."""
        await self._saver.aflush()
        return await handler(request)


class _Held:
    """What waits to be recorded: of each graph the last step, and what the tasks after it have written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[tuple[str, str], Step] = {}
        self._writes: list[TaskWrites] = []

    def __bool__(self) -> bool:
        return bool(self._steps or self._writes)

    def add_step(self, step: Step) -> None:
        new = step.checkpoint
        place = (new.thread, new.ns)
        with self._lock:
            before = self._steps.pop(place, None)
            self._steps[place] = step if before is None else _both(before, step)
            # A task may be faster than the step before it: what it wrote belongs to this one, or to a later one.
            self._writes = [one for one in self._writes if (one.thread, one.ns) != place or one.checkpoint_id >= new.id]

    def add_writes(self, writes: TaskWrites) -> None:
        with self._lock:
            self._writes.append(writes)

    def take(self) -> Sequence[Step | TaskWrites]:
        with self._lock:
            taken: list[Step | TaskWrites] = [*self._steps.values(), *self._writes]
            self._steps, self._writes = {}, []
        return taken


def _both(before: Step, step: Step) -> Step:
    """Two steps of a graph as one."""
    blobs = [blob for blob in before.blobs if blob.channel not in step.changed]
    return Step(step.checkpoint, [*blobs, *step.blobs], {*before.changed, *step.changed})


def _only_computed(writes: Sequence[tuple[str, Any]], task_path: str) -> bool:
    """Whether a task has only changed the state: no pause, no error."""
    return task_path.endswith(HOOKS) and not any(channel in WRITES_IDX_MAP for channel, _ in writes)
