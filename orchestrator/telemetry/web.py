"""A trace and a measure of each HTTP request: a pure ASGI middleware, and no other instrumentation beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter
from typing import Any

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from orchestrator.telemetry.metrics import Metrics
from orchestrator.telemetry.traces import HEADER, continue_trace, span

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""What machines ask again and again: it is measured, and no trace is made of it."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Anything else is told as `_OTHER`."""
NO_ROUTE = "none"
"""The route of a request that fits none."""


UNOBSERVED: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}
"""`FastAPI(telemetry=...)`: what it would tell by itself, in versions that do, has the texts of errors in it."""


class ObservedRequests:
    """`app.add_middleware(ObservedRequests, metrics=metrics)`. The span's name and the route are known when it is answered."""

    def __init__(self, app: App, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] in UNTRACED:
            await self._measured(scope, receive, send, None)
        else:
            method = _method(scope)
            with (
                continue_trace(_header(scope, HEADER)),
                span(method, {"http.request.method": method, "url.path": scope["path"]}, kind=SpanKind.SERVER) as current,
            ):
                await self._measured(scope, receive, send, current)

    async def _measured(self, scope: Scope, receive: Receive, send: Send, current: Span | None) -> None:
        began, answered = perf_counter(), False

        async def sending(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start" and not answered:
                answered = True
                self._answered(scope, int(message["status"]), perf_counter() - began, current)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            if not answered:
                self._answered(scope, 500, perf_counter() - began, current)
            raise

    def _answered(self, scope: Scope, status: int, seconds: float, current: Span | None) -> None:
        method, route = _method(scope), _route(scope)
        self._metrics.request_answered(method, route, status, seconds)
        if current is None:
            return
        current.update_name(f"{method} {route}" if route != NO_ROUTE else method)
        current.set_attribute("http.response.status_code", status)
        current.set_attribute("http.route", route)
        if status >= 500:
            current.set_attribute("error.type", str(status))
            current.set_status(Status(StatusCode.ERROR))


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in METHODS else "_OTHER"


def _route(scope: Scope) -> str:
    """The path of the route, whole: a route of an included router may know only its own part."""
    part = getattr(scope.get("route"), "path_format", None)
    if not isinstance(part, str):
        return NO_ROUTE
    filled = part
    for name, value in scope.get("path_params", {}).items():
        filled = filled.replace(f"{{{name}}}", str(value))
    path = str(scope["path"])
    return path.removesuffix(filled) + part if path.endswith(filled) else part


def _header(scope: Scope, name: str) -> str | None:
    for key, value in scope["headers"]:
        if key == name.encode():
            return str(value.decode("latin-1"))
    return None
