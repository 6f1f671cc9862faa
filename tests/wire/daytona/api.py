"""Daytona's API: sandboxes and snapshots. Requests are checked against the models of the SDK's own generated clients."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final, TypeVar

from daytona_api_client import CreateSandbox, CreateSandboxSnapshot, ForkSandbox, SandboxLabels, UpdateSandboxNetworkSettings
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ValidationError

from tests.wire.daytona.faults import Faults
from tests.wire.daytona.state import DEFAULT_SNAPSHOT, ENDED, Box, Refused, World, kind_of, recipe_of, stamp

SIZES: Final = {"cpu": 4, "memory": 8, "disk": 10}
"""The most that one sandbox may have: cores, GiB, GiB."""
PAGE: Final = 100
LISTING: Final = {
    "cursor", "limit", "id", "name", "labels", "includeErroredDeleted", "states", "snapshots", "regionIds", "sort", "order",
}  # fmt: skip
KEPT: Final = (
    "autoStopInterval", "autoArchiveInterval", "autoDeleteInterval", "ttlMinutes", "networkAllowList", "domainAllowList",
)  # fmt: skip

M = TypeVar("M", bound=BaseModel)


async def parsed(request: Request, model: type[M]) -> dict[str, Any]:
    """The body of a request as that model has it; unknown and wrong fields are refused."""
    try:
        body = await request.json()
        checked = model.from_dict(body)  # type: ignore[attr-defined]
    except (ValidationError, ValueError, TypeError, AttributeError) as exc:
        raise Refused(400, f"Invalid request body: {exc}") from exc
    if unknown := getattr(checked, "additional_properties", None):
        raise Refused(400, f"property {', '.join(sorted(unknown))} should not exist")
    return {key: value for key, value in body.items() if value is not None}


def routes(world: World, key: str) -> APIRouter:
    """The API, for whoever has this key."""
    api = APIRouter(prefix="/api", dependencies=[Depends(authorized(world.faults, key))])

    @api.post("/sandbox")
    async def create(request: Request) -> dict[str, Any]:
        return await _create(world, await parsed(request, CreateSandbox))

    @api.get("/sandbox")
    async def listing(request: Request) -> dict[str, Any]:
        if unknown := set(request.query_params) - LISTING:
            raise Refused(400, f"property {', '.join(sorted(unknown))} should not exist")
        return _listing(world, request)

    @api.get("/sandbox/{id_}")
    async def get(id_: str) -> dict[str, Any]:
        return world.described(world.box(id_))

    @api.delete("/sandbox/{id_}")
    async def delete(id_: str) -> dict[str, Any]:
        box = world.box(id_)
        world.begin(world.destroy(box))
        return {**world.described(box), "state": "destroying"}

    @api.get("/sandbox/{id_}/toolbox-proxy-url")
    async def proxy(id_: str) -> dict[str, str]:
        world.box(id_)
        return {"url": f"{world.url}/toolbox"}

    @api.get("/sandbox/{id_}/build-logs-url")
    async def logs_url(id_: str) -> dict[str, str]:
        return {"url": f"{world.url}/api/sandbox/{world.box(id_).id}/build-logs"}

    @api.get("/sandbox/{id_}/build-logs")
    async def logs(id_: str) -> PlainTextResponse:
        return PlainTextResponse("".join(f"{line}\n" for line in world.box(id_).built))

    @api.post("/sandbox/{id_}/start")
    async def start(id_: str) -> dict[str, Any]:
        box = world.box(id_)
        if box.state != "stopped":
            raise Refused(400, "Sandbox is not in a stopped state")
        box.state = "starting"
        world.begin(_restart(world, box))
        return world.described(box)

    @api.post("/sandbox/{id_}/stop")
    async def stop(id_: str) -> dict[str, Any]:
        box = world.box(id_)
        if box.state != "started":
            raise Refused(400, "Sandbox is not started")
        world.begin(world.stop(box))
        return {**world.described(box), "state": "stopping"}

    @api.put("/sandbox/{id_}/labels")
    async def labels(id_: str, request: Request) -> dict[str, Any]:
        body = await parsed(request, SandboxLabels)
        world.box(id_).labels = body["labels"]
        return {"labels": body["labels"]}

    @api.post("/sandbox/{id_}/network-settings")
    async def network(id_: str, request: Request) -> dict[str, Any]:
        body = await parsed(request, UpdateSandboxNetworkSettings)
        box = world.box(id_)
        box.told.update(body)
        return world.described(box)

    @api.post("/sandbox/{id_}/last-activity")
    async def activity(id_: str) -> Response:
        world.box(id_).active = time.monotonic()
        return Response(status_code=201)

    intervals = {"autostop": "autoStopInterval", "autoarchive": "autoArchiveInterval", "autodelete": "autoDeleteInterval",
                 "ttl": "ttlMinutes"}  # fmt: skip

    @api.post("/sandbox/{id_}/{what}/{minutes}")
    async def interval(id_: str, what: str, minutes: int) -> dict[str, Any]:
        if what not in intervals:
            raise Refused(404, f"Cannot POST /api/sandbox/{id_}/{what}/{minutes}")
        box = world.box(id_)
        box.told[intervals[what]] = minutes
        return world.described(box)

    @api.post("/sandbox/{id_}/fork")
    async def fork(id_: str, request: Request) -> dict[str, Any]:
        body = await parsed(request, ForkSandbox)
        return world.described(await world.fork(world.box(id_), body.get("name")))

    @api.post("/sandbox/{id_}/snapshot")
    async def snapshot(id_: str, request: Request) -> dict[str, Any]:
        body = await parsed(request, CreateSandboxSnapshot)
        box = world.box(id_)
        await world.keep(box, body["name"])
        return world.described(box)

    @api.get("/snapshots")
    async def snapshots(page: int = 1, limit: int = PAGE) -> dict[str, Any]:
        found = [world.described_snapshot(one) for one in world.kept.values()]
        pages = max(1, -(-len(found) // limit))
        return {"items": found[(page - 1) * limit : page * limit], "total": len(found), "page": page, "totalPages": pages}

    @api.get("/snapshots/{id_:path}")
    async def get_snapshot(id_: str) -> dict[str, Any]:
        return world.described_snapshot(world.snapshot(id_))

    @api.delete("/snapshots/{id_:path}")
    async def delete_snapshot(id_: str) -> Response:
        await world.forget(world.snapshot(id_))
        return Response(status_code=200)

    return api


def authorized(faults: Faults, key: str) -> Any:
    """A dependency that lets only those pass who have the key."""

    async def check(request: Request) -> None:
        if faults.expired or request.headers.get("authorization") != f"Bearer {key}":
            raise Refused(401, "Invalid credentials")
        if faults.forbidden and request.method != "GET":
            raise Refused(403, "Access denied: the API key lacks the permission write:sandboxes")

    return check


async def _create(world: World, body: dict[str, Any]) -> dict[str, Any]:
    source = None
    if body.get("snapshot") not in (None, DEFAULT_SNAPSHOT):
        source = world.snapshot(body["snapshot"])
        if source.state != "active":
            raise Refused(400, f"Snapshot {source.name} is {source.state}")
    sizes = {name: body[name] for name in SIZES if name in body}
    if sizes and "buildInfo" not in body:
        raise Refused(400, "Cannot specify Sandbox resources when using a snapshot")
    for name, value in sizes.items():
        if not 1 <= value <= SIZES[name]:
            raise Refused(400, f"{name} must be between 1 and {SIZES[name]}")
    name = world.admit(body.get("name"))
    try:
        kind, missing = kind_of(body, source), None
    except LookupError as exc:
        kind, missing = kind_of({}, None), str(exc)
    told = {
        "user": body.get("user") or ("root" if kind.root else "daytona"), "public": bool(body.get("public")),
        "target": body.get("target") or "us", "networkBlockAll": bool(body.get("networkBlockAll")),
        "snapshot": body.get("snapshot") or (None if "buildInfo" in body else DEFAULT_SNAPSHOT),
        "disk": sizes.get("disk", 3), **{key: body[key] for key in KEPT if key in body},
    }  # fmt: skip
    if "buildInfo" in body:
        told["buildInfo"] = {**body["buildInfo"], "createdAt": stamp(), "updatedAt": stamp(), "snapshotRef": "built"}
    box = world.new_box(name, kind, told, body.get("labels", {}), body.get("env", {}))
    if missing is not None:
        box.state, box.error = "build_failed", f"pull access denied for {missing}, repository does not exist"
    elif source is None and "buildInfo" not in body and not world.faults.stuck:
        await world.start(box, None)  # such sandboxes wait in a pool
    elif box.kind.built and source is None:
        box.state = "pending_build"
        recipe, contexts = recipe_of(body["buildInfo"]), body["buildInfo"].get("contextHashes", ())
        world.begin(world.build(box, recipe, contexts))
    else:
        world.begin(world.start(box, source.folder if source else None))
    return world.described(box)


async def _restart(world: World, box: Box) -> None:
    async with box.busy:
        await asyncio.to_thread(box.jail.start, box.kind)
        box.active = time.monotonic()
        await world.change(box, "started")


def _listing(world: World, request: Request) -> dict[str, Any]:
    wanted = json.loads(request.query_params.get("labels", "{}"))
    states = request.query_params.getlist("states")
    found = [
        one
        for one in world.boxes.values()
        if one.state not in ENDED[:1] and wanted.items() <= one.labels.items() and (not states or one.state in states)
    ]
    start, limit = int(request.query_params.get("cursor", "0")), int(request.query_params.get("limit", PAGE))
    more = str(start + limit) if len(found) > start + limit else None
    return {"items": [world.described(one, listed=True) for one in found[start : start + limit]], "nextCursor": more}


def refused(exc: Refused, path: str) -> JSONResponse:
    """A refusal in the API's envelope."""
    body = {"statusCode": exc.status, "message": exc.message, "source": exc.source, "path": path, "timestamp": stamp()}
    return JSONResponse({**body, **({"code": exc.code} if exc.code else {})}, exc.status)
