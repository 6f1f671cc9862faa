"""What runs and tenants have used so far: of models as each call ends, of sandboxes up to this moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, SelectBase, func, insert, literal, select, update

from orchestrator.runs import tables as t
from orchestrator.runs.changing import change_held
from orchestrator.runs.database import Database
from orchestrator.runs.models import Lease, ModelUsage
from orchestrator.runs.spent import Spent

OLDEST_RUN = timedelta(days=31)
"""A run that was submitted so long before a month began is not counted in it, whatever it still uses: the sum for a month
looks at the runs of two, not at all there ever were."""

_COUNTS = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Spending(Database):
    """Usage, as it comes in and as it adds up."""

    def add_usage(self, lease: Lease, number: int, used: Sequence[ModelUsage]) -> Spent:
        """Add to what an attempt of this lease has used; what all runs of its tree have used then, in all their attempts.

        A budget holds for a run and its children together. Call it after each call of a model, with what that call has used
        alone. Raises `StaleLease`.
        """
        moment = self._now()
        with self._writing() as connection:
            row = change_held(connection, lease, {"heartbeat_at": moment})
            for one in used:
                _add(connection, lease.run_id, number, one)
            return spent_by_tree(connection, row.root_id or row.id, moment)

    def spent(self, run_id: str) -> Spent:
        """What all runs of the tree of this one have used up to now, in all their attempts."""
        root = select(t.runs.c.root_id).where(t.runs.c.id == run_id)
        with self._reading() as connection:
            return spent_by_tree(connection, connection.execute(root).scalar() or run_id, self._now())

    def spent_with_children(self, run_id: str) -> Spent:
        """What this run and all below it have used up to now, in all their attempts; it may be below others itself."""
        c = t.runs.c
        tree = select(c.id).where(c.id == run_id).cte(recursive=True)
        tree = tree.union_all(select(c.id).join(tree, c.parent_id == tree.c.id))
        with self._reading() as connection:
            return _spent_by(connection, select(tree.c.id), self._now())


def spent_by_tree(connection: Connection, top: str, moment: datetime) -> Spent:
    """What a run and all below it have used up to this moment; `top` is below none."""
    tree = select(literal(top)).union_all(select(t.runs.c.id).where(t.runs.c.root_id == top))
    return _spent_by(connection, tree, moment)


def _spent_by(connection: Connection, tree: SelectBase, moment: datetime) -> Spent:
    u, a = t.usage.c, t.attempts.c
    attempts = connection.execute(select(*_TIMES).where(a.run_id.in_(tree)))
    return _spent(connection.execute(_sums().where(u.run_id.in_(tree))).one(), attempts, moment)


def spent_by_tenant(connection: Connection, tenant: str, moment: datetime) -> Spent:
    """What the attempts of a tenant's runs have used that began in this calendar month (UTC)."""
    r, u, a = t.runs.c, t.usage.c, t.attempts.c
    since = month_of(moment)
    own = (r.tenant == tenant, r.created_at >= since - OLDEST_RUN, a.started_at >= since)
    joined = t.runs.join(t.attempts, a.run_id == r.id)
    used = _sums().select_from(joined.join(t.usage, (u.run_id == a.run_id) & (u.attempt == a.number))).where(*own)
    known = select(func.sum(a.sandbox_seconds)).select_from(joined).where(*own)
    open_ones = select(*_TIMES).select_from(joined).where(*own, a.sandbox_seconds.is_(None), a.sandbox_id.is_not(None))
    spent = _spent(connection.execute(used).one(), connection.execute(open_ones), moment)
    seconds = float(connection.execute(known).scalar_one() or 0.0)
    return Spent(spent.tokens, spent.cost_micros, spent.sandbox_seconds + seconds)


def month_of(moment: datetime) -> datetime:
    """When the calendar month of this moment began, in UTC."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(moment: datetime) -> datetime:
    """When the calendar month after this moment begins, in UTC."""
    return month_of(month_of(moment) + timedelta(days=32))


_TIMES = tuple(t.attempts.c[name] for name in ("sandbox_seconds", "sandbox_id", "started_at", "finished_at"))


def _sums() -> Any:
    u = t.usage.c
    return select(func.sum(u.input_tokens + u.output_tokens).label("tokens"), func.sum(u.cost_micros).label("cost"))


def _spent(sums: Row[Any], attempts: Iterable[Row[Any]], moment: datetime) -> Spent:
    seconds = sum(_sandbox_seconds(row, moment) for row in attempts)
    return Spent(int(sums.tokens or 0), int(sums.cost or 0), seconds)


def _sandbox_seconds(attempt: Row[Any], moment: datetime) -> float:
    """Of an attempt that goes on, or was lost, all the time since it began counts, when it has a sandbox."""
    if attempt.sandbox_seconds is not None:
        return float(attempt.sandbox_seconds)
    if attempt.sandbox_id is None:
        return 0.0
    lasted: timedelta = (attempt.finished_at or moment) - attempt.started_at
    return max(0.0, lasted.total_seconds())


def _add(connection: Connection, run_id: str, number: int, used: ModelUsage) -> None:
    """The run's row is locked: nobody else adds to it meanwhile."""
    u = t.usage.c
    key = {"run_id": run_id, "attempt": number, "agent": used.agent, "model": used.model}
    more = {name: getattr(used, name) for name in _COUNTS}
    sums: dict[str, Any] = {name: u[name] + literal(value, BigInteger) for name, value in more.items()}
    if used.cost_micros is not None:
        sums["cost_micros"] = func.coalesce(u.cost_micros, 0) + literal(used.cost_micros, BigInteger)
    row = [u[name] == value for name, value in key.items()]
    if connection.execute(update(t.usage).where(*row).values(sums)).rowcount == 0:
        connection.execute(insert(t.usage).values(**key, **more, cost_micros=used.cost_micros))
