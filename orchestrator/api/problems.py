"""Errors as the API tells them: RFC 9457 documents, the same shape whatever went wrong."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from orchestrator.errors import BadInput, Conflict, FanfoldError, InfrastructureError, NotFound, QuotaExceeded

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20
"""Faults of a request that one answer names."""
RETRY_LATER = 5
"""Seconds after which to ask again when something that the API stands on does not answer."""

_log = logging.getLogger("fanfold.api")


class Fault(BaseModel):
    """One thing that is wrong with a request."""

    loc: str
    """Where: `body.task.timeout`, `query.limit`."""
    msg: str


class Problem(BaseModel):
    """What every answer with a status of 400 or more says."""

    type: str = "about:blank"
    title: str
    """The name of the status."""
    status: int
    detail: str
    """What was wrong, where, and what to do about it."""
    instance: str | None = None
    """The path that was asked for."""
    errors: list[Fault] | None = None


class Refused(HTTPException):
    """A request that is refused here, before any error of the service: raise it with a status and a sentence."""

    def __init__(self, status: HTTPStatus, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status.value, detail, dict(headers or {}))


_DESCRIPTIONS: Mapping[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.UNAUTHORIZED: "There is no key, or it opens nothing.",
    HTTPStatus.FORBIDDEN: "The key lacks the scope.",
    HTTPStatus.NOT_FOUND: "It is not there, or is another tenant's.",
    HTTPStatus.CONFLICT: "What is there does not allow it now.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "What was asked for cannot be done as it was asked.",
    HTTPStatus.TOO_MANY_REQUESTS: "The tenant has used up what it may; `Retry-After` says when to ask again.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Something that the API stands on does not answer.",
}
_SCHEMA = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}

_HEADERS: Mapping[HTTPStatus, tuple[str, str]] = {
    HTTPStatus.UNAUTHORIZED: ("WWW-Authenticate", "How to send a key."),
    HTTPStatus.TOO_MANY_REQUESTS: ("Retry-After", "Seconds."),
    HTTPStatus.SERVICE_UNAVAILABLE: ("Retry-After", "Seconds."),
}


def _header(status: HTTPStatus) -> dict[str, Any]:
    """What is said of the header that answers with this status have."""
    if status not in _HEADERS:
        return {}
    name, text = _HEADERS[status]
    return {"headers": {name: {"description": text, "required": True, "schema": {"type": "string"}}}}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status.value: {"description": text, "content": _SCHEMA, **_header(status)} for status, text in _DESCRIPTIONS.items()
}
"""For `responses=` of the application: what any route may answer."""


def problem(
    request: Request | None,
    status: int,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: list[Fault] | None = None,
) -> Response:
    """The answer."""
    title = HTTPStatus(status).phrase
    path = request.url.path if request else None
    body = Problem(title=title, status=status, detail=detail, instance=path, errors=errors)
    return JSONResponse(body.model_dump(exclude_none=True), status, dict(headers or {}), media_type=MEDIA_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Have every error of `app` told as a problem."""
    app.add_exception_handler(FanfoldError, _of_fanfold)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(StarletteHTTPException, _of_http)
    app.add_exception_handler(Exception, _of_ours)


def status_of(exc: FanfoldError) -> HTTPStatus:
    """The status of an error of the service."""
    if isinstance(exc, NotFound):
        return HTTPStatus.NOT_FOUND
    if isinstance(exc, Conflict):
        return HTTPStatus.CONFLICT
    if isinstance(exc, QuotaExceeded):
        return HTTPStatus.TOO_MANY_REQUESTS
    if isinstance(exc, BadInput):
        return HTTPStatus.UNPROCESSABLE_ENTITY
    return HTTPStatus.SERVICE_UNAVAILABLE


async def _of_fanfold(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, FanfoldError)
    status, headers = status_of(exc), {}
    if isinstance(exc, QuotaExceeded):
        headers = {"Retry-After": str(max(1, math.ceil(exc.retry_after)))}
    elif isinstance(exc, InfrastructureError):
        _log.error("%s %s: %s", request.method, request.url.path, exc)
        headers = {"Retry-After": str(RETRY_LATER)}
    return problem(request, status, str(exc), headers=headers)


async def _of_validation(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    return problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, "the request is not valid", errors=faults(exc.errors()))


def faults(errors: Any) -> list[Fault]:
    """Pydantic's errors as ours. What was given is not repeated: it may be a secret."""
    found = [Fault(loc=".".join(str(part) for part in one["loc"]), msg=_plain(str(one["msg"]))) for one in errors]
    return found[:MAX_ERRORS]


def _plain(text: str) -> str:
    return text.removeprefix("Value error, ").encode(errors="replace").decode()


async def _of_http(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, StarletteHTTPException)
    headers = dict(exc.headers or {})
    if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(methods_of(request.app, request.url.path))  # a route knows only its own
    return problem(request, exc.status_code, str(exc.detail), headers=headers)


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods that an address takes, by the API's own description: those of the template with the fewest variables."""
    paths = app.openapi()["paths"]
    fitting = [template for template in paths if _template(template).fullmatch(path)]
    fewest = min(fitting, key=lambda template: template.count("{"), default=None)
    return sorted(method.upper() for method in paths.get(fewest, ()))


def _template(template: str) -> re.Pattern[str]:
    """A pattern for what a template means; the name of an artifact may hold slashes."""
    pattern = re.sub(r"\\{name\\}$", ".+", re.escape(template))
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", pattern))


async def _of_ours(request: Request, exc: Exception) -> Response:
    return problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "this is a fault of the API; its log says more")
