"""Checkpoints of a run's agent in the record: of each graph the last one, its values, and what its next step has written.

Only the last is kept, so that a conversation of a thousand messages takes the room of one state, not of a thousand. When a
graph comes a step further, what ran inside the step before has ended: the checkpoints of those graphs go as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, Table, and_, delete, insert, select, tuple_

from orchestrator.checkpoints import Blob, FoundCheckpoint, PendingWrite, Step, StoredCheckpoint, TaskWrites
from orchestrator.runs import checkpoint_tables as t
from orchestrator.runs.database import Database, insert_unless_there
from orchestrator.runs.held import hold
from orchestrator.runs.models import Lease

BETWEEN = "|"
"""Stands between the names of a graph and of the one inside it."""
TASK = ":"
"""Stands between a node and its task in the name of a graph that lasts no longer than the task."""


class Checkpoints(Database):
    """The checkpoints of one run, under the lease of its worker: a `CheckpointRecord`. No other run's are ever seen.

    Safe to use from several threads at once.
    """

    def __init__(self, engine: Engine, lease: Lease) -> None:
        super().__init__(engine)
        self._lease = lease

    def note(self, changes: Sequence[Step | TaskWrites]) -> None:
        """Keep these, in this order, all or none of them. Raises `StaleLease`."""
        with self._writing() as connection:
            hold(connection, self._lease)
            for change in changes:
                if isinstance(change, Step):
                    self._put(connection, change)
                else:
                    self._put_writes(connection, change)

    def get(self, thread: str, ns: str, checkpoint_id: str | None = None) -> FoundCheckpoint | None:
        """The checkpoint of a graph; None when there is none, or when it has another id than the one asked for."""
        query = select(t.checkpoints).where(self._in(t.checkpoints, thread, ns))
        if checkpoint_id is not None:
            query = query.where(t.checkpoints.c.id == checkpoint_id)
        with self._reading() as connection:
            row = connection.execute(query.order_by(t.checkpoints.c.id.desc()).limit(1)).one_or_none()
            return self._whole(connection, row) if row is not None else None

    def list(self, thread: str | None = None, ns: str | None = None) -> Sequence[FoundCheckpoint]:
        """The checkpoints of one thread or of all of the run's, of one graph or of all; newest first."""
        c = t.checkpoints.c
        query = select(t.checkpoints).where(c.run_id == self._lease.run_id).order_by(c.id.desc())
        if thread is not None:
            query = query.where(c.thread == thread)
        if ns is not None:
            query = query.where(c.ns == ns)
        with self._reading() as connection:
            return [self._whole(connection, row) for row in connection.execute(query).all()]

    def delete_thread(self, thread: str) -> None:
        """Forget everything of a thread. Raises `StaleLease`."""
        with self._writing() as connection:
            hold(connection, self._lease)
            for table in (t.checkpoints, t.blobs, t.writes):
                connection.execute(delete(table).where(self._of(table, thread)))

    def _put(self, connection: Connection, step: Step) -> None:
        """Keep a step in place of the one before, and forget what ran inside that one."""
        checkpoint = step.checkpoint
        thread, ns = checkpoint.thread, checkpoint.ns
        rows = connection.execute(self._around(thread, ns)).all()
        replaced = {row.id for row in rows if row.ns == ns}
        self._forget_inside(connection, thread, _ended(rows, ns, replaced - {checkpoint.id}))
        self._replace(connection, checkpoint, replaced)
        self._replace_blobs(connection, thread, ns, step)

    def _put_writes(self, connection: Connection, new: TaskWrites) -> None:
        """Keep what a task has written. What is there already stays, but for langgraph's own channels."""
        c = t.writes.c
        ours = and_(self._in(t.writes, new.thread, new.ns), c.checkpoint_id == new.checkpoint_id)
        found = {(one.task_id, one.number): one for one in new.writes}
        if own := [key for key in found if key[1] < 0]:
            connection.execute(delete(t.writes).where(ours, tuple_(c.task_id, c.number).in_(own)))
        place = {**self._place(new.thread, new.ns), "checkpoint_id": new.checkpoint_id}
        if found:
            connection.execute(insert_unless_there(connection, t.writes), [{**place, **vars(one)} for one in found.values()])

    def _of(self, table: Table, thread: str) -> ColumnElement[bool]:
        return and_(table.c.thread == thread, table.c.run_id == self._lease.run_id)

    def _in(self, table: Table, thread: str, ns: str) -> ColumnElement[bool]:
        return and_(self._of(table, thread), table.c.ns == ns)

    def _place(self, thread: str, ns: str) -> dict[str, str]:
        return {"thread": thread, "ns": ns, "run_id": self._lease.run_id}

    def _around(self, thread: str, ns: str) -> Any:
        """Asks for the checkpoints of a graph and of those that are inside it."""
        c = t.checkpoints.c
        query = select(c.ns, c.id, c.meta).where(self._of(t.checkpoints, thread))
        return query.where((c.ns == ns) | c.ns.startswith(ns + BETWEEN, autoescape=True)) if ns else query

    def _replace(self, connection: Connection, checkpoint: StoredCheckpoint, replaced: Collection[str]) -> None:
        here = self._in(t.checkpoints, checkpoint.thread, checkpoint.ns)
        connection.execute(delete(t.checkpoints).where(here))
        # Writes of this very step stay: a task may be faster than the step before it is recorded.
        c = t.writes.c
        old = (c.checkpoint_id < checkpoint.id) | c.checkpoint_id.in_(set(replaced) - {checkpoint.id})
        connection.execute(delete(t.writes).where(self._in(t.writes, checkpoint.thread, checkpoint.ns), old))
        values = {**vars(checkpoint), "run_id": self._lease.run_id}
        values["meta"] = dict(values.pop("metadata"))
        connection.execute(insert(t.checkpoints).values(values))

    def _replace_blobs(self, connection: Connection, thread: str, ns: str, step: Step) -> None:
        channels = {*step.changed, *(blob.channel for blob in step.blobs)}
        if channels:
            here = self._in(t.blobs, thread, ns)
            connection.execute(delete(t.blobs).where(here, t.blobs.c.channel.in_(channels)))
        if step.blobs:
            connection.execute(insert(t.blobs), [{**self._place(thread, ns), **vars(blob)} for blob in step.blobs])

    def _forget_inside(self, connection: Connection, thread: str, ended: Collection[str]) -> None:
        if ended:
            for table in (t.checkpoints, t.blobs, t.writes):
                connection.execute(delete(table).where(self._of(table, thread), table.c.ns.in_(ended)))

    def _whole(self, connection: Connection, row: Row[Any]) -> FoundCheckpoint:
        found = connection.execute(select(t.blobs).where(self._in(t.blobs, row.thread, row.ns)))
        blobs = [Blob(one.channel, one.version, one.kind, one.data) for one in found]
        here = (self._in(t.writes, row.thread, row.ns), t.writes.c.checkpoint_id == row.id)
        written = connection.execute(select(t.writes).where(*here))
        writes = [PendingWrite(w.task_id, w.number, w.channel, w.path, w.kind, w.data) for w in written]
        writes.sort(key=lambda one: (one.path, one.task_id, one.number))  # databases sort by the rules of their language
        checkpoint = StoredCheckpoint(row.thread, row.ns, row.id, row.parent_id, row.kind, row.data, row.meta)
        return FoundCheckpoint(checkpoint, blobs, writes)


def _ended(rows: Iterable[Row[Any]], ns: str, replaced: Collection[str]) -> set[str]:
    """Names of the graphs that ran inside the steps of `ns` that are replaced, but those that a node keeps from run to run."""
    inside = ((row.ns, (row.meta.get("parents") or {}).get(ns)) for row in rows if row.ns != ns)
    return {name for name, parent in inside if parent in replaced and TASK in name.removeprefix(ns)}

