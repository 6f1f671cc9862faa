"""Recording new runs: they wait in the queue, as far as their tenant may have so many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select

from orchestrator.errors import QuotaExceeded
from orchestrator.policy import TenantDefaults
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.choice import asked_values
from orchestrator.runs.frozen import insert_frozen
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.spending import next_month, spent_by_tenant
from orchestrator.runs.spent import MICROS, Spent
from orchestrator.runs.tenants import Limits, ensure_tenant
from orchestrator.runs.waiting import count_waiting

QUEUE_RETRY = 5.0
"""Seconds after which a queue that was full may have room again."""
RUNS_AT_ONCE = 500
"""Rows of one statement."""
_STEP = timedelta(microseconds=1)
"""Between two runs that are recorded together: the first one of them is the oldest."""


def add_runs(connection: Connection, new: Sequence[NewRun], moment: datetime, *, sent: bool = False) -> None:
    """Record new runs, pending, in the order in which they are to begin; `sent` says that they were sent to workers.

    Their tenants have rows: see `admit`, which looks at their limits too, and `ensure_tenants`.
    """
    for start in range(0, len(new), RUNS_AT_ONCE):
        rows = [
            _values_of(one, moment + number * _STEP, moment if sent else None)
            for number, one in enumerate(new[start : start + RUNS_AT_ONCE], start)
        ]
        connection.execute(insert(t.runs), rows)
    for one in new:
        insert_frozen(connection, one)


def ensure_tenants(connection: Connection, new: Sequence[NewRun], moment: datetime) -> None:
    """Have rows for the tenants of these runs, without a look at what they may."""
    for tenant in {one.tenant for one in new}:
        ensure_tenant(connection, tenant, moment)


def admit(connection: Connection, new: Sequence[NewRun], moment: datetime, defaults: TenantDefaults) -> None:
    """Make sure that their tenants may have these runs, before they are recorded in the same transaction.

    A tenant without a row gets one. Of two that come at once, the second one counts the first. Raises `QuotaExceeded`.
    """
    for tenant, count in sorted(Counter(one.tenant for one in new).items()):
        limits = with_defaults(ensure_tenant(connection, tenant, moment).limits, defaults)
        if limits.max_queued is not None:
            connection.execute(select(s.tenants.c.id).where(s.tenants.c.id == tenant).with_for_update())
            _check_queue(connection, tenant, count, limits.max_queued)
        if has_budget(limits):
            _check_budget(spent_by_tenant(connection, tenant, moment), limits, tenant, moment)


def with_defaults(own: Limits, defaults: TenantDefaults) -> Limits:
    """A tenant's own limits, and the policy's where it has none."""
    told = {name: value for name, value in defaults.model_dump().items() if getattr(own, name) is None}
    return Limits(**{**vars(own), **told})


def has_budget(limits: Limits) -> bool:
    """Whether it matters what the tenant has used this month."""
    return any(value is not None for value in (limits.max_tokens, limits.max_cost_micros, limits.max_sandbox_seconds))


def used_up(spent: Spent, limits: Limits) -> str | None:
    """Which budget of this month is used up, in words; None while there is some left of each."""
    if limits.max_tokens is not None and spent.tokens >= limits.max_tokens:
        return f"{limits.max_tokens} tokens"
    if limits.max_cost_micros is not None and spent.cost_micros >= limits.max_cost_micros:
        return f"{limits.max_cost_micros / MICROS:g} USD"
    if limits.max_sandbox_seconds is not None and spent.sandbox_seconds >= limits.max_sandbox_seconds:
        return f"{limits.max_sandbox_seconds:g} s of sandboxes"
    return None


def _check_queue(connection: Connection, tenant: str, count: int, most: int) -> None:
    waiting = count_waiting(connection, tenant, most + 1)
    if waiting + count > most:
        message = f"{waiting} runs of '{tenant}' wait, and {most} may: submit {count} more when others have begun"
        raise QuotaExceeded(message, retry_after=QUEUE_RETRY)


def _check_budget(spent: Spent, limits: Limits, tenant: str, moment: datetime) -> None:
    if (budget := used_up(spent, limits)) is not None:
        ends = next_month(moment)
        raise QuotaExceeded(
            f"'{tenant}' has used up its budget of {budget} for this month; submit again from {ends:%Y-%m-%d} (UTC),"
            " or have the operator raise it",
            retry_after=(ends - moment).total_seconds(),
        )


def _values_of(new: NewRun, created: datetime, dispatched: datetime | None) -> dict[str, Any]:
    return {
        **{name: value for name, value in vars(new).items() if name != "frozen"},
        "labels": dict(new.labels),
        **asked_values(new.spec),
        "status": RunStatus.PENDING.value,
        "created_at": created,
        "dispatched_at": dispatched,
        "attempt": 0,
        "cancel_requested": False,
        "lease_token": 0,
        "last_seq": 0,
    }
