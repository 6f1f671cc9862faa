"""How far an agent is, in plain values: what the agent's room and the record hand each other of langgraph's checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Blob:
    """The value of one channel, serialized."""

    channel: str
    version: str
    kind: str
    """How `data` is serialized."""
    data: bytes


@dataclass(frozen=True)
class PendingWrite:
    """What a task of the step that runs has written."""

    task_id: str
    number: int
    """Its place among the task's writes; below 0 for those of langgraph's own channels, of which a later one replaces it."""
    channel: str
    path: str
    """The place of the task in the step, by which its writes are ordered."""
    kind: str
    data: bytes


@dataclass(frozen=True)
class StoredCheckpoint:
    """A step that is done. The values of its channels are kept apart, since most steps change few of them."""

    thread: str
    ns: str
    """The graph: "" is the outermost; one that runs in a task of another has that one's name, `|`, and its task's."""
    id: str
    parent_id: str | None
    kind: str
    data: bytes
    metadata: Mapping[str, Any]
    """Plain JSON. `parents` has the checkpoint of each graph around this one at which this one runs, by their names."""


@dataclass(frozen=True)
class Step:
    """A step that is done: it takes the place of the one before, whose tasks' writes are in it."""

    checkpoint: StoredCheckpoint
    blobs: Sequence[Blob]
    changed: Collection[str]
    """All channels with a new version; one without a blob is empty."""


@dataclass(frozen=True)
class TaskWrites:
    """What a task of the step after a checkpoint has written. What is there already stays as it is."""

    thread: str
    ns: str
    checkpoint_id: str
    writes: Sequence[PendingWrite]


@dataclass(frozen=True)
class FoundCheckpoint:
    """A checkpoint with everything that belongs to it."""

    checkpoint: StoredCheckpoint
    blobs: Sequence[Blob]
    writes: Sequence[PendingWrite]
    """In the order in which they are to be applied."""


class CheckpointRecord(Protocol):
    """Where the checkpoints of one run are kept. Of each graph only the last is: a run goes on, it never goes back.

    Every change is made under the lease of the run's worker. Raises `StaleLease` when that is over: nothing was written then.
    """

    def note(self, changes: Sequence[Step | TaskWrites]) -> None:
        """Keep these, in this order, all or none of them."""

    def get(self, thread: str, ns: str, checkpoint_id: str | None = None) -> FoundCheckpoint | None:
        """The checkpoint of a graph; None when there is none, or when it has another id than the one asked for."""

    def list(self, thread: str | None = None, ns: str | None = None) -> Sequence[FoundCheckpoint]:
        """The checkpoints of one thread or of all, of one graph or of all; newest first."""

    def delete_thread(self, thread: str) -> None:
        """Forget everything of a thread."""
