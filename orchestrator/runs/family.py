"""The fan-outs of runs in the record: their children, which are runs as well, and what is noted to go on with them.

The worker that has a run executes its children; none of them is ever sent on the queue, or recovered by itself. Everything here
is written under the lease of the parent. `Granting` says which child may run when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from orchestrator.errors import BadInput, NotFound
from orchestrator.runs import tables as t
from orchestrator.runs.adding import add_runs
from orchestrator.runs.changing import change_held, put_artifact
from orchestrator.runs.database import Database, locking, run_of
from orchestrator.runs.files import RESERVED
from orchestrator.runs.held import hold
from orchestrator.runs.models import Artifact, Lease, NewRun, Run

CHANGES = f"{RESERVED}changes"
"""Names what a child has changed among its artifacts."""
COMMITS = f"{RESERVED}commits"
"""Names what it has committed."""


@dataclass(frozen=True)
class FanOut:
    """A fan-out as it was when it was read."""

    run_id: str
    key: str
    """Tells it from others of the same run, in at most 64 characters; it names the `Run.epoch`, so that none comes twice."""
    base: str | None
    """SHA-256 of what the children were forked from; None until it was noted, as with what follows."""
    plan: str | None
    """SHA-256 of what is to be applied to the parent's workspace."""
    result: dict[str, Any] | None
    """What came of it, as the parent goes on with it."""
    created_at: datetime


class Family(Database):
    """Fan-outs and children. Safe to use from many threads and many processes."""

    def begin(self, lease: Lease, key: str, children: Sequence[NewRun], *, max_depth: int, max_runs: int) -> list[Run]:
        """The children of this fan-out in task order: recorded with it now, pending, or as they are when it was begun before.

        Whose they are, where they belong and how urgent they are they have of their parent. Raises `StaleLease`, and `BadInput`
        when they would be more than `max_depth` levels below the top of the tree, when it would have more than `max_runs` runs
        with them, itself among them, or when the run can have none; then nothing was recorded.
        """
        with self._writing() as connection:
            moment = self._now()
            _lock_top(connection, lease.run_id)
            parent = run_of(change_held(connection, lease, {"heartbeat_at": moment}))
            if connection.execute(_one(parent.id, key)).one_or_none() is None:
                _check(connection, parent, len(children), max_depth, max_runs)
                connection.execute(insert(t.fan_outs).values(run_id=parent.id, key=key, created_at=moment))
                new = [_child_of(parent, key, place, child) for place, child in enumerate(children)]
                add_runs(connection, new, moment)
            return _children(connection, parent.id, key)

    def children(self, run_id: str, key: str | None = None) -> list[Run]:
        """The children of one fan-out in task order, or those of all of a run's fan-outs, the first one's first."""
        with self._reading() as connection:
            return _children(connection, run_id, key)

    def tree(self, run_id: str) -> list[Run]:
        """All runs below this one, at any depth: those nearest to it first, and then as `children` has them."""
        c, below = t.runs.c, {run_id}
        top = select(func.coalesce(c.root_id, c.id)).where(c.id == run_id).scalar_subquery()
        query = select(t.runs).where(c.root_id == top).order_by(c.depth, c.created_at, c.place, c.id)
        found: list[Run] = []
        with self._reading() as connection:
            for run in map(run_of, connection.execute(query)):
                if run.parent_id in below:
                    below.add(run.id)
                    found.append(run)
        return found

    def fan_out(self, run_id: str, key: str) -> FanOut | None:
        """A fan-out of a run; None when none with this key was begun, or the run has begun again from nothing since."""
        with self._reading() as connection:
            row = connection.execute(_one(run_id, key)).one_or_none()
            return _fan_out_of(row) if row is not None else None

    def fan_outs(self, run_id: str) -> list[FanOut]:
        """The fan-outs of a run since it last began from nothing, in the order in which they were begun."""
        c = t.fan_outs.c
        query = select(t.fan_outs).where(c.run_id == run_id).order_by(c.created_at, c.key)
        with self._reading() as connection:
            return [_fan_out_of(row) for row in connection.execute(query)]

    def note_base(self, lease: Lease, key: str, artifact: Artifact) -> None:
        """Note what the children are forked from: an artifact of the parent whose content is in place, under a reserved name.

        So it goes with the run, and nobody is told of it. Raises `StaleLease`, and `NotFound` when the fan-out was not begun.
        """
        self._note(lease, key, artifact, {"base": artifact.sha256})

    def note_plan(self, lease: Lease, key: str, artifact: Artifact) -> None:
        """Note what is to be applied to the parent's workspace, as `note_base` does."""
        self._note(lease, key, artifact, {"plan": artifact.sha256})

    def note_result(self, lease: Lease, key: str, result: dict[str, Any]) -> None:
        """Note what came of a fan-out. Raises `StaleLease`, and `NotFound` when it was not begun."""
        self._note(lease, key, None, {"result": result})

    def note_work(self, lease: Lease, artifact: Artifact) -> None:
        """Note work of a child: an artifact of its own under a reserved name (`CHANGES`, `COMMITS`), whose content is in place.

        Raises `StaleLease`.
        """
        with self._writing() as connection:
            hold(connection, lease)
            put_artifact(connection, artifact)

    def work(self, run_id: str, name: str) -> str | None:
        """SHA-256 of work of a child; None when it has done none, or did not come so far."""
        c = t.artifacts.c
        with self._reading() as connection:
            return connection.execute(select(c.sha256).where(c.run_id == run_id, c.name == name)).scalar()

    def _note(self, lease: Lease, key: str, artifact: Artifact | None, values: dict[str, Any]) -> None:
        c = t.fan_outs.c
        with self._writing() as connection:
            hold(connection, lease)
            noted = update(t.fan_outs).where(c.run_id == lease.run_id, c.key == key).values(values)
            if connection.execute(noted).rowcount == 0:
                raise NotFound(f"run {lease.run_id} has no fan-out '{key}': begin it first")
            if artifact is not None:
                put_artifact(connection, artifact)


def _lock_top(connection: Connection, run_id: str) -> None:
    """Lock the run at the top of a tree: whoever adds to the tree counts what all others have added.

    It is locked before the runs below it, as whoever ends a tree does.
    """
    c = t.runs.c
    top = select(func.coalesce(c.root_id, c.id)).where(c.id == run_id).scalar_subquery()
    connection.execute(locking(select(c.id).where(c.id == top)))


def _check(connection: Connection, parent: Run, count: int, max_depth: int, max_runs: int) -> None:
    if not parent.may_have_children:
        raise BadInput(f"run {parent.id} is a command: only an agent or a `fan_out` has children")
    if parent.depth + 1 > max_depth:
        raise BadInput(
            f"run {parent.id} is {parent.depth} fan-outs deep, and {max_depth} are allowed: it has to do its work itself"
        )
    members = select(func.count()).select_from(t.runs).where(t.runs.c.root_id == parent.top)
    there = connection.execute(members).scalar_one() + 1
    if there + count > max_runs:
        raise BadInput(
            f"run {parent.top} and all below it are {there} runs, and may be {max_runs}: {count} more are too many, have fewer"
        )


def _child_of(parent: Run, key: str, place: int, new: NewRun) -> NewRun:
    """A thread and a batch are of what somebody submitted: a child is in neither."""
    return replace(
        new,
        tenant=parent.tenant,
        labels=parent.labels,
        priority=parent.priority,
        traceparent=new.traceparent or parent.traceparent,
        thread_id=None,
        batch_id=None,
        ready_at=None,
        parent_id=parent.id,
        root_id=parent.top,
        depth=parent.depth + 1,
        fan_out=key,
        place=place,
    )


def _children(connection: Connection, run_id: str, key: str | None) -> list[Run]:
    c = t.runs.c
    query = select(t.runs).where(c.parent_id == run_id).order_by(c.created_at, c.place, c.id)
    if key is not None:
        query = select(t.runs).where(c.parent_id == run_id, c.fan_out == key).order_by(c.place)
    return [run_of(row) for row in connection.execute(query)]


def _one(run_id: str, key: str) -> Select[Any]:
    return select(t.fan_outs).where(t.fan_outs.c.run_id == run_id, t.fan_outs.c.key == key)


def _fan_out_of(row: Row[Any]) -> FanOut:
    return FanOut(**row._mapping)
