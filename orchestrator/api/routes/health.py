"""Whether the process lives, and whether it can serve."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from orchestrator.api.auth import observer
from orchestrator.service import Service

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """That all is well; what is not is told as a problem."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def healthz() -> Health:
    """The process lives."""
    return Health()


@router.get("/readyz")
def readyz(request: Request) -> Health:
    """The record and the broker answer, so that runs can be submitted; 503 says what does not."""
    service: Service = request.app.state.service
    service.check()
    return Health()


@router.get("/metrics", response_class=PlainTextResponse, dependencies=[Depends(observer)])
def metrics(request: Request) -> Response:
    """What this process and the record count, for Prometheus. Only the operator's key opens it, unless it is public."""
    service: Service = request.app.state.service
    return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)
