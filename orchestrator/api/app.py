"""The application: its routes, and what holds for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.openapi.utils import get_openapi

from orchestrator.api.bodies import BodyCap
from orchestrator.api.heads import Heads
from orchestrator.api.limits import RateLimits
from orchestrator.api.problems import PROBLEMS, Problem, add_problem_handlers
from orchestrator.api.queries import PREFIX, known_parameters
from orchestrator.api.routes import (
    batches,
    health,
    keys,
    me,
    runs,
    sandboxes,
    schedules,
    tenants,
    threads,
    traces,
    uploads,
    webhooks,
)
from orchestrator.api.turns import Turns
from orchestrator.errors import FanfoldError
from orchestrator.service import Service
from orchestrator.telemetry.web import UNOBSERVED, ObservedRequests

DESCRIPTION = "Runs AI agents, and plain commands, in sandboxes."
ROUTERS = (
    runs.router,
    traces.router,
    batches.router,
    threads.router,
    uploads.router,
    schedules.router,
    sandboxes.router,
    webhooks.router,
    keys.router,
    tenants.router,
    me.router,
)
"""Below `PREFIX`."""
SWEEP_EVERY = 600.0
"""Seconds between two looks for uploads that are to be removed."""
BATCHES_AT_ONCE = 4
"""Large batches that a process takes at the same time: each is in memory, and takes several times its size there."""
BATCHES_OF_A_TENANT = 2
EXPOSED = ["Location", "Retry-After", "ETag", "Content-Range", "Accept-Ranges"]
"""Headers of answers that a browser shows to pages of `FANFOLD_CORS_ORIGINS`."""

_log = logging.getLogger("fanfold.api")


def create_app(service: Service, *, stopping: Callable[[], bool] = lambda: False) -> FastAPI:
    """The API over a service, which stays its caller's to close.

    `stopping` tells whether the server is about to end: answers that wait or stream end then.
    """
    app = FastAPI(
        title="Fanfold",
        version=version("fanfold"),
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=PROBLEMS,
        dependencies=[Depends(known_parameters)],
        telemetry=UNOBSERVED,
    )
    app.state.service = service
    app.state.limits = RateLimits(service.broker_url)
    app.state.batches = Turns(total=BATCHES_AT_ONCE, each=BATCHES_OF_A_TENANT)
    app.state.heads = Heads(service.heads, service.broker_url, stopping=stopping)
    app.state.parameters = {}
    add_problem_handlers(app)
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX)
    app.include_router(health.router)
    app.add_middleware(BodyCap)
    if origins := service.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=sorted(origins), allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED
        )
    app.add_middleware(ObservedRequests, metrics=service.metrics)  # around all others
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The document, with the one schema that no route returns."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        made.setdefault("components", {}).setdefault("schemas", {}).update({**schema.pop("$defs"), "Problem": schema})
        app.openapi_schema = made
    return app.openapi_schema


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    sweeper = asyncio.create_task(_sweep(service))
    app.state.heads.start()
    yield
    sweeper.cancel()
    with suppress(asyncio.CancelledError):
        await sweeper
    app.state.limits.close()
    await app.state.heads.close()


async def _sweep(service: Service) -> None:
    while True:
        try:
            await asyncio.to_thread(service.uploads.sweep)
        except FanfoldError as exc:
            _log.warning("old uploads could not be removed: %s", exc)
        await asyncio.sleep(SWEEP_EVERY)
