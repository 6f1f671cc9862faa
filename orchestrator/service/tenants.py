"""Tenants: who shares this installation. Only its operator sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from orchestrator.errors import BadInput
from orchestrator.runs.tenants import Limits, Tenant, Tenants, TenantUsage
from orchestrator.service.installation import Installation
from orchestrator.settings import TENANT_PATTERN


class TenantBook:
    """The tenants of an installation."""

    def __init__(self, installation: Installation) -> None:
        self._of = installation

    @cached_property
    def _tenants(self) -> Tenants:
        return Tenants(self._of.engine)

    def list(self) -> Sequence[Tenant]:
        """All tenants, by id."""
        return self._tenants.all()

    def get(self, tenant: str) -> Tenant:
        """The tenant. Raises `NotFound`."""
        return self._tenants.get(tenant)

    def set(self, tenant: str, limits: Limits) -> Tenant:
        """Have a tenant with these limits, and no others. Raises `BadInput` for a name that cannot be."""
        if not re.fullmatch(TENANT_PATTERN, tenant):
            raise BadInput(f"tenant '{tenant}': a name is at most 63 small letters, digits and '-', beginning with no '-'")
        return self._tenants.set(tenant, limits)

    def usage(self, tenant: str) -> TenantUsage:
        """What the tenant's runs that are in the record have used. Raises `NotFound`."""
        return self._tenants.usage(tenant)
