"""Caps on the bodies of requests, kept before anything is parsed."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.api.problems import Refused, problem

MAX_BODY = 2 * 1024**2
"""Bytes of the body of a request."""
MAX_BATCH = 64 * 1024**2
"""Bytes of the body of a batch."""
STREAMED = "/v1/uploads"
"""Its route counts by itself while it writes to the disk."""
BATCHES = "/v1/batches"


class BodyCap:
    """Middleware that answers 413 for a body that is larger than its route takes, whether its length was told or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["path"] == STREAMED:
            await self._app(scope, receive, send)
            return
        cap = MAX_BATCH if scope["path"] == BATCHES else MAX_BODY
        request = Request(scope)
        told = request.headers.get("content-length", "0")
        if not told.isdecimal() or int(told) > cap:
            await problem(request, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(cap))(scope, receive, send)
            return
        await self._app(scope, _counted(receive, cap), send)


def _counted(receive: Receive, cap: int) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > cap:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _too_large(cap))
        return message

    return counted


def _too_large(cap: int) -> str:
    return f"the body is larger than the {cap:,} bytes that this takes; files go through POST /v1/uploads"
