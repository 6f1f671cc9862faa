"""langgraph's checkpoints in the record of runs: what makes an agent go on at its last step after its worker died.

    saver = RecordSaver(record)
    agent = create_deep_agent(..., checkpointer=saver)
    await agent.ainvoke(state, config, durability="sync")   # the first time
    await agent.ainvoke(None, config, durability="sync")    # after that: goes on where it was

With `durability="sync"` no step begins before the one before it is recorded. What a tool has returned is recorded when it
returns, so a step whose worker dies repeats only those of its tools that had not returned.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from orchestrator.checkpoints import Blob, CheckpointRecord, FoundCheckpoint, PendingWrite, Step, StoredCheckpoint, TaskWrites
from orchestrator.errors import BadInput

NONCE = 8
"""Bytes that tell apart two versions of a channel which have the same number."""


def serializer(types: Collection[type] = ()) -> JsonPlusSerializer:
    """langgraph's serializer, without pickles. It makes only langgraph's and langchain's own values and those of `types`."""
    allowed = tuple((one.__module__, one.__name__) for one in types)
    return JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=allowed or None)


class RecordSaver(BaseCheckpointSaver[str]):
    """Keeps the checkpoints of one run's graphs in a `CheckpointRecord`, of each graph the last.

    So there is no going back: a checkpoint that was replaced is not found, and a graph with a `DeltaChannel`, whose value is
    made from all steps before, is refused with `BadInput`. Each write may raise `StaleLease`.
    """

    def __init__(self, record: CheckpointRecord, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or serializer())
        self._record = record

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The last checkpoint of the thread, or the one that `config` names if that is the last."""
        thread, ns = _place(config)
        found = self._record.get(thread, ns, get_checkpoint_id(config))
        return self._tuple(found) if found is not None else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The last checkpoint of each graph that fits, newest first."""
        configurable = config["configurable"] if config else {}
        found = self._record.list(configurable.get("thread_id"), configurable.get("checkpoint_ns"))
        ends = get_checkpoint_id(before) if before else None
        fitting = [
            one
            for one in found
            if (not config or get_checkpoint_id(config) in (None, one.checkpoint.id))
            and (ends is None or one.checkpoint.id < ends)
            and all(one.checkpoint.metadata.get(key) == value for key, value in (filter or {}).items())
        ]
        yield from map(self._tuple, fitting[:limit])

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Keep a step in place of the one before."""
        self._record.note([self._step(config, checkpoint, metadata, new_versions)])
        return after(config, checkpoint)

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a task of the step after this checkpoint has written."""
        self._record.note([self._writes(config, writes, task_id, task_path)])

    def delete_thread(self, thread_id: str) -> None:
        """Forget everything of a thread."""
        self._record.delete_thread(thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple`, while others go on."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list`, while others go on."""
        found = await asyncio.to_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)])
        for one in found:
            yield one

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """`put`, while others go on."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes`, while others go on."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread`, while others go on."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version that sorts after `current`, and that no other process gives out."""
        number = int(current.split(".")[0]) if current else 0
        return f"{number + 1:032}.{secrets.token_hex(NONCE)}"

    def _step(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> Step:
        if metadata.get("counters_since_delta_snapshot"):
            raise BadInput("the graph has a DeltaChannel, whose value is made from every step: only the last one is kept here")
        thread, ns = _place(config)
        values = checkpoint["channel_values"]
        blobs = [
            Blob(channel, str(version), *self.serde.dumps_typed(values[channel]))
            for channel, version in new_versions.items()
            if channel in values
        ]
        kind, data = self.serde.dumps_typed({key: value for key, value in checkpoint.items() if key != "channel_values"})
        told = dict(get_checkpoint_metadata(config, metadata))
        stored = StoredCheckpoint(thread, ns, checkpoint["id"], get_checkpoint_id(config), kind, data, told)
        return Step(stored, blobs, new_versions.keys())

    def _writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> TaskWrites:
        thread, ns = _place(config)
        rows = [
            PendingWrite(task_id, WRITES_IDX_MAP.get(channel, number), channel, task_path, *self.serde.dumps_typed(value))
            for number, (channel, value) in enumerate(writes)
        ]
        return TaskWrites(thread, ns, config["configurable"]["checkpoint_id"], rows)

    def _tuple(self, found: FoundCheckpoint) -> CheckpointTuple:
        stored = found.checkpoint
        told: dict[str, Any] = self.serde.loads_typed((stored.kind, stored.data))
        held = {(blob.channel, blob.version): blob for blob in found.blobs}
        versions = told["channel_versions"].items()
        current = [held[key] for channel, version in versions if (key := (channel, str(version))) in held]
        values = {blob.channel: self.serde.loads_typed((blob.kind, blob.data)) for blob in current}
        return CheckpointTuple(
            config=_config(stored.thread, stored.ns, stored.id),
            checkpoint=cast("Checkpoint", {**told, "channel_values": values}),
            metadata=cast("CheckpointMetadata", dict(stored.metadata)),
            parent_config=_config(stored.thread, stored.ns, stored.parent_id) if stored.parent_id else None,
            pending_writes=[(one.task_id, one.channel, self.serde.loads_typed((one.kind, one.data))) for one in found.writes],
        )


def _place(config: RunnableConfig) -> tuple[str, str]:
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns", "")


def after(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    """What names a checkpoint, as langgraph is told of it when it was put at `config`."""
    return _config(*_place(config), checkpoint["id"])


def _config(thread: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}
