"""Telling receivers of what happened to a run: noted in the transaction in which it happens, and sent later by a controller.

So nothing is told that was undone, and nothing that happened is forgotten, whoever dies in between.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, insert, select

from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.database import run_of
from orchestrator.runs.models import Run

WAITING = "waiting"
"""Status of a delivery that is to be sent, or to be sent again."""

AT_ONCE = 500
"""Runs that one question to the record asks for."""


def new_delivery_id() -> str:
    """`dlv-` and 12 hexadecimal digits."""
    return "dlv-" + secrets.token_hex(6)


def note(connection: Connection, runs: Sequence[Run], event: str, moment: datetime, data: Mapping[str, Any]) -> None:
    """Note that this happened to each of these runs, for each webhook of its tenant that wants to know. Children are left out.

    The runs are told as they are now in this transaction; `data` is what their events of this type carry. A tenant without
    webhooks costs one question to an index, however many of its runs there are.
    """
    submitted = [run for run in runs if run.parent_id is None]
    for tenant in sorted({run.tenant for run in submitted}):
        receivers = _receivers(connection, tenant, event)
        ids = [run.id for run in submitted if run.tenant == tenant] if receivers else []
        for start in range(0, len(ids), AT_ONCE):
            found = connection.execute(select(t.runs).where(t.runs.c.id.in_(ids[start : start + AT_ONCE]))).all()
            told = {row.id: payload_of(event, moment, run_of(row), data) for row in found}
            rows = [delivery_values(to, run_id, event, told[run_id], moment) for run_id in told for to in receivers]
            connection.execute(insert(s.deliveries), rows)


def _receivers(connection: Connection, tenant: str, event: str) -> list[str]:
    """The webhooks of a tenant that want to know of this."""
    c = s.webhooks.c
    # A webhook that is being deleted is waited for, and one that was read stays until the end: its deliveries refer to it.
    wanted = select(c.id, c.events).where(c.tenant == tenant, c.enabled).with_for_update(read=True, key_share=True)
    return [row.id for row in connection.execute(wanted) if event in row.events]


def payload_of(event: str, moment: datetime, run: Run | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent, but for its id. `run` is None when it is about none."""
    return {"event": event, "at": as_text(moment), "run": run_as_told(run) if run else None, "data": dict(data)}


def delivery_values(
    webhook_id: str, run_id: str, event: str, payload: dict[str, Any], moment: datetime
) -> dict[str, Any]:
    """The row of a delivery that is to be sent at once."""
    return {
        "id": new_delivery_id(),
        "webhook_id": webhook_id,
        "run_id": run_id,
        "event": event,
        "payload": payload,
        "status": WAITING,
        "attempts": 0,
        "created_at": moment,
        "next_at": moment,
    }


def run_as_told(run: Run) -> dict[str, Any]:
    """A run as `GET /v1/runs/{run_id}` shows it."""
    return {
        "id": run.id,
        "name": run.name,
        "status": run.status.value,
        "tenant": run.tenant,
        "labels": dict(run.labels),
        "priority": run.priority,
        "thread_id": run.thread_id,
        "batch_id": run.batch_id,
        "parent_id": run.parent_id,
        "root_id": run.root_id,
        "depth": run.depth,
        "fan_out": run.fan_out,
        "place": run.place,
        "attempt": run.attempt,
        "worker": run.worker,
        "lost": run.lost,
        "cancel_requested": run.cancel_requested,
        "created_at": as_text(run.created_at),
        "started_at": as_text(run.started_at),
        "finished_at": as_text(run.finished_at),
        "error": {"kind": run.error.kind, "message": run.error.message} if run.error else None,
        "exit_code": run.exit_code,
        "provider": run.provider,
        "interrupt": run.interrupt,
        "decide_by": as_text(run.decide_by),
        "task": run.spec,
    }


def as_text(moment: datetime | None) -> str | None:
    """A moment as ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None
