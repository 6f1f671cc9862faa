"""What the API's own description says of an address: its parameters and its methods.

A parameter that a route does not know is refused, so that a slip in a filter does not list everything.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi

from orchestrator.api.problems import Refused
from orchestrator.complaints import did_you_mean

PREFIX = "/v1"
"""Of all paths but those of health and metrics."""


async def known_parameters(request: Request) -> None:
    """A dependency of every route: answers 422 for a parameter that it does not know, or one that cannot be text."""
    if not request.query_params:
        return
    if (known := _parameters(request)) is None:
        return
    wrong: list[dict[str, Any]] = [
        {"loc": ("query", name), "msg": f"unknown parameter{did_you_mean(name, known) or _known(known)}", "type": "extra"}
        for name in sorted(set(request.query_params) - known)
    ]
    if wrong:
        raise RequestValidationError(wrong)
    if any("\0" in value for value in request.query_params.values()):
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "a parameter of the address holds a NUL character")


def _known(known: set[str]) -> str:
    return f"; known: {', '.join(sorted(known))}" if known else "; this takes none"


def _parameters(request: Request) -> set[str] | None:
    """The names of the route's parameters, as its own description has them; None for a route that the API's leaves out.

    A route is described by itself, when it is first asked: the whole description takes half a second.
    """
    route, method = request.scope["route"], request.method.lower()
    known: dict[tuple[str, str], set[str] | None] = request.app.state.parameters
    if (route.path, method) not in known:
        described = get_openapi(title="", version="", routes=[route])["paths"].get(route.path_format, {}).get(method)
        names = described and {one["name"] for one in described.get("parameters", ()) if one["in"] == "query"}
        known[route.path, method] = names
    return known[route.path, method]
