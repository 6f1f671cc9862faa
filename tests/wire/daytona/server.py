"""The wire server: an application over HTTP and WebSockets, and a thread that serves it on a port of this machine.

Requests and answers have the shapes of the SDK's own models; unknown fields, names and states are refused as the API refuses
them. Commands run in sandboxes of this machine, and these are less than Daytona's: an image is this machine's `/usr`, with
Python or without; a sandbox has one user, `daytona`, who may make folders in `/`, or root without capabilities; `disk` is noted
and not enforced; a public network is this machine's, and where there is an allowlist, nothing is reached at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import socketio
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from sandboxes.providers.local.provider import ROOTS_PLACE
from tests.wire.daytona import api, sessions, storage, toolbox
from tests.wire.daytona.counted import Gate, Tally
from tests.wire.daytona.faults import Faults
from tests.wire.daytona.jail import Yard
from tests.wire.daytona.state import ENDED, Refused, World

START_SECONDS: Final = 20.0


def application(world: World, key: str, tally: Tally) -> Any:
    """The ASGI application of a server."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        world.loop = asyncio.get_running_loop()
        watching = asyncio.create_task(world.watch())
        yield
        watching.cancel()
        await world.close()

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    known = (api.routes, storage.routes, toolbox.routes, toolbox.terminals, sessions.routes, sessions.followed)
    for routes in (*known, toolbox.unspoken):
        app.include_router(routes(world, key))

    @app.exception_handler(Refused)
    async def refused(request: Request, exc: Refused) -> Response:
        return api.refused(exc, request.url.path)

    @app.put("/control/faults")
    async def faults(request: Request) -> Response:
        """Set faults, as JSON; what is not named becomes harmless again."""
        world.faults.clear()
        try:
            world.faults.set(await request.json())
        except ValueError as exc:
            return JSONResponse({"message": str(exc)}, 400)
        return JSONResponse(asdict(world.faults))

    @app.get("/control/counts")
    async def counts() -> dict[str, Any]:
        """Requests and bytes, by route."""
        return tally.told()

    @app.get("/control/names")
    async def names() -> list[str]:
        """The names of sandboxes, with their labels, and of snapshots that are there."""
        boxes = [f"{one.name} {one.labels}" for one in world.boxes.values() if one.state not in ENDED]
        return [*boxes, *(one.name for one in world.kept.values())]

    @app.delete("/control/counts")
    async def forget() -> None:
        """Count from nothing."""
        tally.clear()

    events = socketio.AsyncServer(async_mode="asgi", cors_allowed_origins=[])

    @events.event
    async def connect(_sid: str, _environ: dict[str, Any], auth: dict[str, str] | None) -> bool:
        return not world.faults.expired and (auth or {}).get("token") == key

    world.notify = events.emit
    return Gate(socketio.ASGIApp(events, app, socketio_path="/api/socket.io"), world.faults, tally)


class WireServer:
    """A server in a thread of this process. `with WireServer() as server: ...`; each has its own sandboxes."""

    def __init__(self, *, sandbox_class: str = "container", port: int = 0, home: Path | None = None) -> None:
        self.key = f"dtn_{secrets.token_hex(16)}"
        self.faults = Faults()
        self.tally = Tally()
        place = ROOTS_PLACE if os.geteuid() == 0 else home or Path(tempfile.gettempdir())
        self.world = World(Yard(place / f"wire-{secrets.token_hex(6)}"), self.faults, sandbox_class)
        self._port = port

    def __enter__(self) -> WireServer:
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=512)
        self._port = self._listener.getsockname()[1]
        self.world.url = self.url
        config = uvicorn.Config(
            application(self.world, self.key, self.tally), log_level="error", access_log=False, lifespan="on",
            timeout_graceful_shutdown=2, ws_max_size=16 * 1024 * 1024, ws_per_message_deflate=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        self._started: Callable[[], bool] = lambda: self._server.started
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_SECONDS / 0.01)):
            if self._started() or not self._thread.is_alive():
                break
            waited.wait(0.01)
        assert self._server.started, "the wire server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(START_SECONDS)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where its world lives: what is done to that from another thread has to be sent there."""
        assert self.world.loop is not None
        return self.world.loop

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def api_url(self) -> str:
        """What `DAYTONA_API_URL` is to be."""
        return f"{self.url}/api"

    @property
    def variables(self) -> dict[str, str]:
        """What a user of it exports."""
        return {"DAYTONA_API_KEY": self.key, "DAYTONA_API_URL": self.api_url, "DAYTONA_TARGET": "us"}
