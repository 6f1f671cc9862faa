"""Tenants: who shares an installation, and what each of them may."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, select, update

from orchestrator.errors import NotFound
from orchestrator.runs import service_tables as s
from orchestrator.runs import tables as t
from orchestrator.runs.database import Database, insert_unless_there
from orchestrator.runs.spending import spent_by_tenant
from orchestrator.runs.spent import Spent


@dataclass(frozen=True)
class Limits:
    """What a tenant may. None is no limit."""

    weight: float = 1.0
    """Its share of the workers, against the others'."""
    max_running: int | None = None
    """Runs at the same time."""
    max_queued: int | None = None
    """Runs that wait."""
    max_requests: int | None = None
    """Requests to the API in a minute."""
    max_tokens: int | None = None
    """Given to models and made by them, in a calendar month (UTC)."""
    max_cost_micros: int | None = None
    """Millionths of a USD, in a calendar month (UTC)."""
    max_sandbox_seconds: float | None = None
    """In a calendar month (UTC)."""


@dataclass(frozen=True)
class Tenant:
    """Who runs belong to."""

    id: str
    created_at: datetime
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class TenantUsage:
    """What the runs of a tenant that are in the record have used."""

    runs: int
    """Without children, whose use counts all the same."""
    input_tokens: int
    output_tokens: int
    cost_micros: int
    """Millionths of a USD, of the models that have a price."""
    sandbox_seconds: float
    month: Spent
    """Of it, in this calendar month (UTC): what counts against the tenant's limits."""


class Tenants(Database):
    """The tenants of the record."""

    def all(self) -> list[Tenant]:
        """All tenants, by id."""
        with self._reading() as connection:
            found = [tenant_of(row) for row in connection.execute(select(s.tenants))]
        return sorted(found, key=lambda tenant: tenant.id)  # databases sort by the rules of their language

    def get(self, tenant: str) -> Tenant:
        """The tenant. Raises `NotFound`."""
        with self._reading() as connection:
            row = connection.execute(select(s.tenants).where(s.tenants.c.id == tenant)).one_or_none()
        if row is None:
            raise NotFound(f"there is no tenant '{tenant}'; `fanfold tenants ls` lists them")
        return tenant_of(row)

    def set(self, tenant: str, limits: Limits) -> Tenant:
        """Have this tenant with these limits, whether it was there or not."""
        with self._writing() as connection:
            ensure_tenant(connection, tenant, self._now())
            connection.execute(update(s.tenants).where(s.tenants.c.id == tenant).values(**vars(limits)))
        return self.get(tenant)

    def usage(self, tenant: str) -> TenantUsage:
        """What its runs have used. Raises `NotFound`."""
        self.get(tenant)
        u, a, r = t.usage.c, t.attempts.c, t.runs.c
        own = select(r.id).where(r.tenant == tenant)
        sums = (func.sum(u.input_tokens), func.sum(u.output_tokens), func.sum(u.cost_micros))
        with self._reading() as connection:
            month = spent_by_tenant(connection, tenant, self._now())
            submitted = own.where(r.parent_id.is_(None)).subquery()
            runs = connection.execute(select(func.count()).select_from(submitted)).scalar_one()
            used = connection.execute(select(*sums).where(u.run_id.in_(own))).one()
            seconds = connection.execute(select(func.sum(a.sandbox_seconds)).where(a.run_id.in_(own))).scalar_one()
        given, made, cost = (int(value or 0) for value in used)
        return TenantUsage(runs, given, made, cost, float(seconds or 0.0), month)


def ensure_tenant(connection: Connection, tenant: str, moment: datetime) -> Tenant:
    """The tenant, which has a row from now on."""
    query = select(s.tenants).where(s.tenants.c.id == tenant)
    if (row := connection.execute(query).one_or_none()) is None:
        connection.execute(insert_unless_there(connection, s.tenants).values(id=tenant, created_at=moment))
        row = connection.execute(query).one()
    return tenant_of(row)


def tenant_of(row: Row[Any]) -> Tenant:
    """A row of `tenants` as a value."""
    return Tenant(row.id, row.created_at, Limits(**{name: getattr(row, name) for name in Limits.__dataclass_fields__}))
