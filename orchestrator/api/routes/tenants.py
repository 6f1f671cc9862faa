"""Tenants, for the operator of the installation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from orchestrator.api.auth import Operates
from orchestrator.runs.tenants import Limits, Tenant
from orchestrator.settings import TENANT_PATTERN
from sandboxes.providers.base import Strict

router = APIRouter(tags=["tenants"])

MAX_COUNT = 2**31 - 1
"""What the record's columns for counts hold."""
MAX_SUM = 2**53 - 1
"""What JSON holds exactly."""

TenantId = Annotated[str, Path(pattern=TENANT_PATTERN)]


class LimitsBody(Strict):
    """What a tenant may. What is left out is no limit."""

    weight: float = Field(1.0, gt=0, le=1_000_000, strict=True, allow_inf_nan=False)
    """Its share of the workers, against the others'."""
    max_running: int | None = Field(None, ge=0, le=MAX_COUNT, strict=True)
    max_queued: int | None = Field(None, ge=0, le=MAX_COUNT, strict=True)
    max_requests: int | None = Field(None, ge=1, le=MAX_COUNT, strict=True)
    """A minute."""
    max_tokens: int | None = Field(None, ge=0, le=MAX_SUM, strict=True)
    """In a calendar month (UTC), as the two after it."""
    max_cost_micros: int | None = Field(None, ge=0, le=MAX_SUM, strict=True)
    """Millionths of a USD."""
    max_sandbox_seconds: float | None = Field(None, ge=0, le=MAX_SUM, strict=True, allow_inf_nan=False)


class TenantModel(BaseModel):
    """A tenant, and what it may."""

    id: str
    created_at: datetime
    weight: float
    max_running: int | None
    max_queued: int | None
    max_requests: int | None
    max_tokens: int | None
    max_cost_micros: int | None
    max_sandbox_seconds: float | None

    @classmethod
    def of(cls, tenant: Tenant) -> TenantModel:
        """From the record's."""
        return cls(id=tenant.id, created_at=tenant.created_at, **vars(tenant.limits))


class TenantList(BaseModel):
    """All tenants, by id."""

    items: list[TenantModel]


class SpentModel(BaseModel):
    """What counts against a tenant's limits."""

    tokens: int
    cost_micros: int
    sandbox_seconds: float


class TenantUsageModel(BaseModel):
    """What the runs of a tenant that are in the record have used."""

    runs: int
    input_tokens: int
    output_tokens: int
    cost_micros: int
    """Millionths of a USD, of the models that have a price."""
    sandbox_seconds: float
    month: SpentModel
    """Of it, in this calendar month (UTC)."""


@router.get("/tenants")
def list_tenants(caller: Operates) -> TenantList:
    """All tenants, by id."""
    return TenantList(items=[TenantModel.of(tenant) for tenant in caller.service.tenants.list()])


@router.get("/tenants/{tenant_id}")
def get_tenant(caller: Operates, tenant_id: TenantId) -> TenantModel:
    """One tenant."""
    return TenantModel.of(caller.service.tenants.get(tenant_id))


@router.put("/tenants/{tenant_id}")
def set_tenant(caller: Operates, tenant_id: TenantId, body: LimitsBody) -> TenantModel:
    """Have a tenant with these limits, whether it was there or not."""
    return TenantModel.of(caller.service.tenants.set(tenant_id, Limits(**body.model_dump())))


@router.get("/tenants/{tenant_id}/usage")
def tenant_usage(caller: Operates, tenant_id: TenantId) -> TenantUsageModel:
    """What the tenant's runs that are in the record have used."""
    used = caller.service.tenants.usage(tenant_id)
    return TenantUsageModel(**{**vars(used), "month": SpentModel(**vars(used.month))})
