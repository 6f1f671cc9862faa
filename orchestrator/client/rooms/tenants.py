"""Tenants; for admin keys of the operator's own tenant."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.client.caller import Caller
from orchestrator.client.driving import Blocking, blocking
from orchestrator.client.models import Limits, Listing, Tenant, TenantUsage


class AsyncTenants:
    """Every tenant of the installation."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(self) -> Sequence[Tenant]:
        """All tenants, by id."""
        return (await self._caller.get(Listing[Tenant], "tenants")).items

    async def get(self, tenant_id: str) -> Tenant:
        """One tenant."""
        return await self._caller.get(Tenant, "tenants", tenant_id)

    async def set(self, tenant_id: str, limits: Limits) -> Tenant:
        """Have a tenant with exactly these limits, whether it was there or not."""
        body = limits.model_dump(include=set(Limits.model_fields), exclude_none=True)
        return await self._caller.change(Tenant, "PUT", "tenants", tenant_id, body=body)

    async def usage(self, tenant_id: str) -> TenantUsage:
        """What the tenant's runs that are in the record have used."""
        return await self._caller.get(TenantUsage, "tenants", tenant_id, "usage")


class Tenants(Blocking[AsyncTenants]):
    """See `AsyncTenants`."""

    list = blocking(AsyncTenants.list)
    get = blocking(AsyncTenants.get)
    set = blocking(AsyncTenants.set)
    usage = blocking(AsyncTenants.usage)
