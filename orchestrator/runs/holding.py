"""What a worker writes, with the `Lease` that its claim gave it.

Each such write names the lease's token, in the same transaction; when another worker has claimed the run since, or the run has
ended, it is refused with `StaleLease` and nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, select, tuple_, update

from orchestrator.runs import tables as t
from orchestrator.runs.changing import (
    begin_attempt,
    change_held,
    end_attempt,
    end_run,
    forget_fan_outs,
    insert_events,
    put_artifact,
)
from orchestrator.runs.claiming import take
from orchestrator.runs.database import Database, get_run, locking, run_of
from orchestrator.runs.models import Artifact, AttemptStatus, Lease, NewEvent, Run, RunError, RunStatus
from orchestrator.runs.outbox import note
from orchestrator.runs.reading import claimable


class Holding(Database):
    """Claiming runs, and writing to those that were claimed."""

    def claim(self, run_id: str, worker: str) -> Lease | None:
        """Take a run that is pending, or whose worker has died. None when somebody else has it, or it has ended.

        An attempt begins; the one of the worker that died is lost. Children are taken by `Granting.grant`.
        """
        c = t.runs.c
        with self._writing() as connection:
            moment = self._now()
            free = select(c.id, c.status, c.heartbeat_at, c.lost).where(c.id == run_id, claimable(moment))
            found = connection.execute(locking(free)).one_or_none()
            if found is None:
                return None
            return take(connection, found, worker, moment)

    def heartbeat(self, lease: Lease) -> bool:
        """Say that the worker lives. True when the run has been asked to stop. Raises `StaleLease`."""
        with self._writing() as connection:
            return bool(change_held(connection, lease, {"heartbeat_at": self._now()}).cancel_requested)

    def heartbeats(self, leases: Collection[Lease]) -> dict[Lease, bool]:
        """Say that the worker of all of these runs lives. Of those that it still holds: whether they have been asked to stop.

        Who is changing one of them at this moment is not waited for: then it has no heartbeat this time.
        """
        c = t.runs.c
        tokens = [(one.run_id, one.token) for one in leases]
        held = (tuple_(c.id, c.lease_token).in_(tokens), c.status == RunStatus.RUNNING.value)
        with self._writing() as connection:
            told = {row.id: row for row in connection.execute(select(c.id, c.lease_token, c.cancel_requested).where(*held))}
            free = locking(select(c.id).where(*held).order_by(c.id), skip_locked=True)
            connection.execute(update(t.runs).where(c.id.in_(free)).values(heartbeat_at=self._now()))
        return {
            one: bool(row.cancel_requested)
            for one in leases
            if (row := told.get(one.run_id)) is not None and row.lease_token == one.token
        }

    def next_attempt(self, lease: Lease, error: RunError) -> int:
        """End the attempt that runs, which failed for this reason, and begin another from nothing; its number.

        What goes on below the run is cancelled. Raises `StaleLease`.
        """
        number = t.runs.c.attempt + 1
        with self._writing() as connection:
            moment = self._now()
            row = change_held(connection, lease, {"attempt": number, **_from_nothing(number)})
            forget_fan_outs(connection, run_of(row), moment)
            end_attempt(connection, lease.run_id, AttemptStatus.ERROR, error, moment)
            begin_attempt(connection, lease.run_id, row.attempt, lease.worker, moment)
            return int(row.attempt)

    def start_over(self, lease: Lease) -> None:
        """Note that there is nothing to go on with: this attempt begins from the inputs.

        What goes on below the run is cancelled. Raises `StaleLease`.
        """
        with self._writing() as connection:
            row = change_held(connection, lease, _from_nothing(t.runs.c.attempt))
            forget_fan_outs(connection, run_of(row), self._now())

    def set_sandbox(self, lease: Lease, handle: dict[str, Any], *, ready: bool = False) -> None:
        """Note the live sandbox of the run, and whether the inputs are in it. The attempt keeps where it ran.

        Raises `StaleLease`.
        """
        with self._writing() as connection:
            number = change_held(connection, lease, {"sandbox": handle, "sandbox_ready": ready}).attempt
            _note_sandbox(connection, lease.run_id, number, handle)

    def set_ready(self, lease: Lease) -> None:
        """Note that all that the task begins with is in the sandbox. Raises `StaleLease`."""
        with self._writing() as connection:
            change_held(connection, lease, {"sandbox_ready": True, "snapshot": None})

    def record_time(self, lease: Lease, number: int, sandbox_seconds: float) -> None:
        """Note how long an attempt of this lease has had sandboxes; call it once, when it ends. Raises `StaleLease`."""
        c = t.attempts.c
        with self._writing() as connection:
            change_held(connection, lease, {"heartbeat_at": self._now()})
            attempt = update(t.attempts).where(c.run_id == lease.run_id, c.number == number)
            connection.execute(attempt.values(sandbox_seconds=sandbox_seconds))

    def append(self, lease: Lease, new: Sequence[NewEvent]) -> None:
        """Add events, in this order. Raises `StaleLease`."""
        if new:
            with self._writing() as connection:
                last = change_held(connection, lease, {"last_seq": t.runs.c.last_seq + len(new)}).last_seq
                insert_events(connection, lease.run_id, last, new)

    def add_artifact(self, lease: Lease, artifact: Artifact) -> None:
        """Record an artifact whose content is in place; one of the same name is replaced. Raises `StaleLease`."""
        created = NewEvent("artifact.created", {"name": artifact.name, "size": artifact.size}, artifact.created_at)
        with self._writing() as connection:
            last = change_held(connection, lease, {"last_seq": t.runs.c.last_seq + 1}).last_seq
            put_artifact(connection, artifact)
            insert_events(connection, lease.run_id, last, [created])

    # The end of a claim

    def settle(self, lease: Lease, status: RunStatus, error: RunError | None) -> None:
        """Note how the run is going to end, before its sandbox goes: whoever claims it now only clears up.

        Raises `StaleLease`.
        """
        outcome = {"status": status.value, "error": {"kind": error.kind, "message": error.message} if error else None}
        with self._writing() as connection:
            change_held(connection, lease, {"outcome": outcome})

    def finish(self, lease: Lease, status: RunStatus, error: RunError | None = None) -> Run:
        """End the run. Raises `StaleLease`, or `IllegalTransition` when a running run cannot become that."""
        with self._writing() as connection:
            moment = self._now()
            row = change_held(connection, lease, {"heartbeat_at": moment})
            end_run(connection, run_of(row), status, error, moment)
            return get_run(connection, lease.run_id)

    def release(self, lease: Lease) -> None:
        """Leave the run to another worker, with its sandbox and all that runs in there. Raises `StaleLease`."""
        c = t.runs.c
        sent = case((c.parent_id.is_(None), c.dispatched_at))  # a child has to be granted again
        with self._writing() as connection:
            change_held(connection, lease, {"status": RunStatus.PENDING.value, "dispatched_at": sent})
            end_attempt(connection, lease.run_id, AttemptStatus.RELEASED, None, self._now())

    def interrupt(
        self, lease: Lease, question: dict[str, Any], decide_by: datetime, snapshot: Artifact | None = None
    ) -> None:
        """Let the run wait for a person, and give it up. Raises `StaleLease`.

        `question` is told to that person. With a `snapshot`, whose content is in its place, it has no sandbox any more.
        """
        moment = self._now()
        data = {"actions": question.get("actions", []), "decide_by": decide_by.isoformat()}
        values: dict[str, Any] = {
            "status": RunStatus.INTERRUPTED.value,
            "interrupt": {**question, "at": moment.isoformat()},
            "decision": None,
            "decide_by": decide_by,
            "snapshot": snapshot.sha256 if snapshot else None,
            "last_seq": t.runs.c.last_seq + 1,
        }
        if snapshot is not None:
            values |= {"sandbox": None, "sandbox_ready": False}
        with self._writing() as connection:
            row = change_held(connection, lease, values)
            if snapshot is not None:
                put_artifact(connection, snapshot)
            end_attempt(connection, lease.run_id, AttemptStatus.INTERRUPTED, None, moment)
            insert_events(connection, lease.run_id, row.last_seq, [NewEvent("run.interrupted", data, moment)])
            note(connection, [run_of(row)], "run.interrupted", moment, data)


def _from_nothing(number: Any) -> dict[str, Any]:
    return {"sandbox": None, "sandbox_ready": False, "snapshot": None, "outcome": None, "epoch": number}


def _note_sandbox(connection: Connection, run_id: str, number: int, handle: dict[str, Any]) -> None:
    c = t.attempts.c
    values = {"provider": handle.get("provider"), "sandbox_id": handle.get("id")}
    connection.execute(update(t.attempts).where(c.run_id == run_id, c.number == number).values(values))
