"""What the record counts, read when Prometheus asks. Each query is bounded, and walks an index."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import ColumnElement, Engine, Select, Subquery, and_, case, func, literal, select

from orchestrator.errors import InfrastructureError
from orchestrator.policy import Policy, Route
from orchestrator.queue import QUEUE
from orchestrator.runs import tables as t
from orchestrator.runs.database import Database, now
from orchestrator.runs.models import RunStatus
from orchestrator.runs.reading import WORKER_TTL
from orchestrator.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

MAX_COUNTED = 100_000
"""Rows that one count looks at; what is beyond is not counted."""
MAX_RUNS = 20_000
"""Runs whose usage is added up: the newest ones of the day."""
MAX_TENANTS = 500
"""Tenants that are told of, each with its queues, models or providers: those with the most."""
WINDOW = timedelta(hours=24)
"""How far back usage is added up."""


class Observed(Protocol):
    """What serves metrics of the record: the `Installation`."""

    @property
    def metrics(self) -> Metrics:
        """What this process counts; the record's metrics are added to it."""


def render(installation: Observed) -> bytes:
    """What `/metrics` answers, in Prometheus' text format (`prometheus_client.CONTENT_TYPE_LATEST`)."""
    return installation.metrics.render()


class RecordCollector(Collector):
    """Reads the record each time it is collected. When that fails `fanfold_record_up` is 0, and nothing else is told."""

    def __init__(
        self, open_engine: Callable[[], Engine], policy: Callable[[], Policy] = Policy, clock: Callable[[], datetime] = now
    ) -> None:
        """`open_engine` is called when somebody collects, and not before; so is `policy`, which says who is in which queue."""
        self._open_engine = open_engine
        self._policy = policy
        self._clock = clock

    def describe(self) -> list[Metric]:
        """Nothing: a registry must not read the record when it is given the collector."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        try:
            found = list(_Counts(self._open_engine(), self._clock).all(self._policy()))
        except InfrastructureError as exc:
            logger.warning("metrics: %s", exc)
            found = []
        yield GaugeMetricFamily("fanfold_record_up", "Whether the record could be read.", value=float(bool(found)))
        yield from found


class _Counts(Database):
    """The queries."""

    def all(self, policy: Policy) -> Iterator[Metric]:
        """Every metric of the record."""
        yield from self._queues(_queue_of(policy.routes))
        yield self._runs()
        yield self._sandboxes()
        yield from self._workers()
        yield from self._usage()
        yield self._sandbox_seconds()

    def _queues(self, queue: ColumnElement[str]) -> Iterator[Metric]:
        labels = ["tenant", "queue"]
        depth = GaugeMetricFamily("fanfold_queued_runs", "Runs that wait for a worker.", labels=labels)
        age = GaugeMetricFamily("fanfold_queue_age_seconds", "How long the oldest run that waits has waited.", labels=labels)
        c = t.runs.c
        pending = (c.status == RunStatus.PENDING.value, c.parent_id.is_(None))  # a child waits for its parent's worker
        waiting = select(c.tenant, queue.label("queue"), c.created_at).where(*pending).limit(MAX_COUNTED).subquery()
        count, whose = func.count().label("count"), (waiting.c.tenant, waiting.c.queue)
        query = select(*whose, count, func.min(waiting.c.created_at)).group_by(*whose)
        moment = self._now()
        with self._reading() as connection:
            for tenant, name, number, oldest in connection.execute(query.order_by(count.desc()).limit(MAX_TENANTS)):
                depth.add_metric([tenant, name], number)
                age.add_metric([tenant, name], max(0.0, (moment - oldest).total_seconds()))
        yield depth
        yield age

    def _runs(self) -> Metric:
        found = GaugeMetricFamily("fanfold_runs", f"Runs in the record, {MAX_COUNTED} of a status at most.", labels=["status"])
        with self._reading() as connection:
            for status in RunStatus:
                some = select(t.runs.c.id).where(t.runs.c.status == status.value).limit(MAX_COUNTED).subquery()
                found.add_metric([status.value], connection.execute(select(func.count()).select_from(some)).scalar_one())
        return found

    def _sandboxes(self) -> Metric:
        found = GaugeMetricFamily("fanfold_sandboxes", "Sandboxes that runs have.", labels=["provider"])
        c = t.runs.c
        live = c.status.in_([RunStatus.RUNNING.value, RunStatus.INTERRUPTED.value])
        some = select(c.provider).where(live, c.sandbox.is_not(None)).limit(MAX_COUNTED).subquery()
        with self._reading() as connection:
            for provider, number in connection.execute(select(some.c.provider, func.count()).group_by(some.c.provider)):
                found.add_metric([provider], number)
        return found

    def _workers(self) -> Iterator[Metric]:
        c = t.workers.c
        heard_of = self._now() - timedelta(seconds=WORKER_TTL)
        query = select(func.count(), func.sum(c.concurrency)).where(c.heartbeat_at > heard_of)
        with self._reading() as connection:
            number, slots = connection.execute(query).one()
        yield GaugeMetricFamily("fanfold_workers", "Workers that are alive.", value=number)
        yield GaugeMetricFamily("fanfold_worker_slots", "Runs that the workers alive can execute at once.", value=slots or 0)

    def _usage(self) -> Iterator[Metric]:
        tokens = GaugeMetricFamily(
            "fanfold_day_tokens", "Tokens of runs submitted within 24 hours.", labels=["tenant", "model", "kind"]
        )
        cost = GaugeMetricFamily(
            "fanfold_day_cost_usd", "Cost of runs submitted within 24 hours.", labels=["tenant", "model"]
        )
        with self._reading() as connection:
            for row in connection.execute(_usage_since(self._now() - WINDOW)):
                for kind in ("input", "output", "cache_read", "cache_write"):
                    tokens.add_metric([row.tenant, row.model, kind], getattr(row, kind) or 0)
                if row.cost is not None:
                    cost.add_metric([row.tenant, row.model], float(row.cost) / 1_000_000)
        yield tokens
        yield cost

    def _sandbox_seconds(self) -> Metric:
        told = "Seconds of sandboxes of runs submitted within 24 hours."
        found = GaugeMetricFamily("fanfold_day_sandbox_seconds", told, labels=["tenant", "provider"])
        with self._reading() as connection:
            for tenant, provider, taken in connection.execute(_sandboxes_since(self._now() - WINDOW)):
                found.add_metric([tenant, provider], taken)
        return found


def _queue_of(routes: Sequence[Route]) -> ColumnElement[str]:
    """The queue of a run, as `Policy.queue` says it."""
    ways = [(and_(*_fits(route)), literal(route.queue)) for route in routes]
    return case(*ways, else_=literal(QUEUE)) if ways else literal(QUEUE)


def _fits(route: Route) -> Iterator[ColumnElement[bool]]:
    c = t.runs.c
    if route.provider is not None:
        yield c.provider == route.provider
    if route.label is not None:
        key, _, value = route.label.partition("=")
        yield c.labels[key].as_string() == value


def _newest_since(moment: datetime) -> Subquery:
    c = t.runs.c
    return select(c.id, c.tenant).where(c.created_at > moment).order_by(c.created_at.desc()).limit(MAX_RUNS).subquery()


def _sandboxes_since(moment: datetime) -> Select[Any]:
    newest, a = _newest_since(moment), t.attempts.c
    taken = func.sum(a.sandbox_seconds)
    joined = select(newest.c.tenant, a.provider, taken).join_from(newest, t.attempts, newest.c.id == a.run_id)
    known = joined.where(a.provider.is_not(None), a.sandbox_seconds.is_not(None))
    return known.group_by(newest.c.tenant, a.provider).order_by(taken.desc()).limit(MAX_TENANTS)


def _usage_since(moment: datetime) -> Select[Any]:
    newest, u = _newest_since(moment), t.usage.c
    sums = [
        func.sum(u.input_tokens).label("input"),
        func.sum(u.output_tokens).label("output"),
        func.sum(u.cache_read_tokens).label("cache_read"),
        func.sum(u.cache_write_tokens).label("cache_write"),
        func.sum(u.cost_micros).label("cost"),
    ]
    joined = select(newest.c.tenant, u.model, *sums).join_from(newest, t.usage, newest.c.id == u.run_id)
    return joined.group_by(newest.c.tenant, u.model).order_by(sums[0].desc()).limit(MAX_TENANTS)
