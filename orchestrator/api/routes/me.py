"""Who asks, and who works."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel

from orchestrator.api.auth import Reads

router = APIRouter()


class Me(BaseModel):
    """Whose key this is."""

    tenant: str
    key_id: str
    scopes: list[str]


class WorkerModel(BaseModel):
    """A worker that is alive."""

    id: str
    host: str
    pid: int
    concurrency: int
    """Runs at the same time."""
    started_at: datetime
    heartbeat_at: datetime


class WorkerList(BaseModel):
    """The workers that are alive, the oldest first."""

    items: list[WorkerModel]


@router.get("/me", tags=["keys"])
def me(caller: Reads) -> Me:
    """Whose key this is, and what it opens."""
    return Me(tenant=caller.tenant, key_id=caller.key_id, scopes=sorted(caller.scopes))


@router.get("/workers", tags=["workers"])
def list_workers(caller: Reads) -> WorkerList:
    """The workers that are alive, the oldest first."""
    return WorkerList(items=[WorkerModel(**vars(worker)) for worker in caller.service.workers()])
