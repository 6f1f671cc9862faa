"""Counts what goes over the wire, and lets it go wrong: the outermost layer of the server."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from fastapi.responses import JSONResponse

from tests.wire.daytona.faults import Faults

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_IDS: Final = re.compile(r"(?<=/)([0-9a-f]{8}-[0-9a-f-]{27}|sbx-[0-9a-f]{16}|snp-[^/]*)(?=/|$)")


@dataclass
class Count:
    """Of one route: requests (of a WebSocket: connections), messages that came over WebSockets, and bytes of content."""

    requests: int = 0
    messages: int = 0
    received: int = 0
    sent: int = 0


class Tally:
    """Counts by route, as `POST /api/sandbox` or `WS /toolbox/{id}/process/pty/create-connect`."""

    def __init__(self) -> None:
        self._counts: dict[str, Count] = {}
        self._lock = threading.Lock()

    def add(self, route: str, **numbers: int) -> None:
        """Count something."""
        with self._lock:
            count = self._counts.setdefault(route, Count())
            for name, number in numbers.items():
                setattr(count, name, getattr(count, name) + number)

    def told(self) -> dict[str, dict[str, int]]:
        """All of it."""
        with self._lock:
            return {route: asdict(count) for route, count in self._counts.items()}

    def requests(self, begins: str = "") -> int:
        """How many requests there were to routes that begin so, without the event stream's."""
        told = self.told().items()
        return sum(count["requests"] for route, count in told if route.startswith(begins) and "socket.io" not in route)

    def clear(self) -> None:
        """Begin again."""
        with self._lock:
            self._counts.clear()


class Gate:
    """Counts each request, and does to it what the faults say."""

    def __init__(self, app: Any, faults: Faults, tally: Tally) -> None:
        self._app, self._faults, self._tally = app, faults, tally

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan" or scope["path"].startswith("/control"):
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["type"] == "http" else "WS"
        route = f"{method} {_IDS.sub('{id}', scope['path'])}"
        self._tally.add(route, requests=1)
        transport = receive.__self__.transport  # type: ignore[attr-defined]
        scope["wire.cut"] = transport.abort
        receive, send = self._counted(route, receive, send)
        if not self._faults.strikes(route) or "socket.io" in scope["path"]:
            await self._app(scope, receive, send)
        else:
            await self._with_faults(scope, receive, send)

    async def _with_faults(self, scope: Message, receive: Receive, send: Send) -> None:
        faults = self._faults
        if faults.delay:
            await asyncio.sleep(faults.delay)
        if scope["type"] == "http" and faults.rate_limited > 0:
            faults.rate_limited -= 1
            headers = {} if faults.retry_after is None else {"Retry-After": str(faults.retry_after)}
            await _refused(429, "Rate limit exceeded", headers)(scope, receive, send)  # type: ignore[arg-type]
        elif scope["type"] == "http" and faults.unavailable > 0:
            faults.unavailable -= 1
            await _refused(503, "Service unavailable", {})(scope, receive, send)  # type: ignore[arg-type]
        elif scope["type"] == "http" and faults.lost_answers > 0:
            faults.lost_answers -= 1
            await self._app(scope, receive, _nowhere)
            scope["wire.cut"]()
        else:
            await self._app(scope, receive, send)

    def _counted(self, route: str, receive: Receive, send: Send) -> tuple[Receive, Send]:
        async def counted_receive() -> Message:
            message = await receive()
            if message["type"] in ("http.request", "websocket.receive"):
                size = len(message.get("body") or message.get("bytes") or (message.get("text") or "").encode())
                self._tally.add(route, received=size, messages=int(message["type"] == "websocket.receive"))
            return message

        async def counted_send(message: Message) -> None:
            body = message.get("body") or message.get("bytes") or (message.get("text") or "").encode()
            if body:
                self._tally.add(route, sent=len(body))
            await send(message)

        return counted_receive, counted_send


def _refused(status: int, message: str, headers: dict[str, str]) -> JSONResponse:
    return JSONResponse({"statusCode": status, "message": message, "source": "DAYTONA_API"}, status, headers)


async def _nowhere(_message: Message) -> None:
    """An answer that gets lost."""
