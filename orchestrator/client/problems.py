"""What a server's refusal means: the error that the same mistake raises without a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from orchestrator.errors import BadInput, Conflict, FanfoldError, InfrastructureError, NotFound, QuotaExceeded

PROBLEM = "application/problem+json"
DEFAULT_RETRY_AFTER = 1.0
"""Seconds, when a server refuses for a while and does not say for how long."""
MAX_COMPLAINTS = 20
"""Of what is wrong with one request, how much its error tells."""


class Unavailable(InfrastructureError):
    """The server, or what it stands on, is not there for the moment."""


def error_of(response: httpx.Response, shown_key: str) -> FanfoldError:
    """The error for an answer that is none of success; its body has been read. `shown_key` names the key without telling it."""
    problem = _problem(response)
    status = response.status_code
    if problem is None:
        return _no_problem(response)
    said = _message(problem, status)
    if status == 401:
        return BadInput(f"{said} ({shown_key} at {_origin(response)}; set FANFOLD_API_KEY to a key that is valid)")
    if status == 403:
        return BadInput(f"{said} ({shown_key} at {_origin(response)}; a key with the scope is needed)")
    if status == 404:
        return NotFound(said)
    if status == 409:
        return Conflict(said)
    if status == 429:
        return QuotaExceeded(said, retry_after=retry_after(response) or DEFAULT_RETRY_AFTER)
    return Unavailable(said) if status >= 500 else BadInput(said)


def retry_after(response: httpx.Response) -> float | None:
    """Seconds until the server wants to be asked again; None when it does not say."""
    value = response.headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _problem(response: httpx.Response) -> Mapping[str, Any] | None:
    if response.headers.get("Content-Type", "").partition(";")[0].strip() != PROBLEM:
        return None
    try:
        value = json.loads(response.content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _message(problem: Mapping[str, Any], status: int) -> str:
    said = str(problem.get("detail") or problem.get("title") or f"the server refused with status {status}")
    errors = problem.get("errors")
    told = [_complaint(one) for one in errors[:MAX_COMPLAINTS] if isinstance(one, dict)] if isinstance(errors, list) else []
    new = [text for text in told if text not in said]
    return "\n".join(new) if new else said


def _complaint(one: Mapping[str, Any]) -> str:
    loc, msg = str(one.get("loc") or ""), str(one.get("msg") or "")
    return f"{loc}: {msg}" if loc else msg


def _no_problem(response: httpx.Response) -> InfrastructureError:
    what = f"{response.request.method} {response.request.url.path}: {response.status_code} {response.reason_phrase}"
    if response.is_redirect:
        target = response.headers.get("Location", "nowhere")
        return InfrastructureError(f"{_origin(response)} sends on to {target}: set FANFOLD_URL to the API's own address")
    if response.status_code >= 500:
        return Unavailable(f"{_origin(response)} does not serve at the moment ({what})")
    return InfrastructureError(f"{_origin(response)} does not answer as a Fanfold API does ({what}): check FANFOLD_URL")


def _origin(response: httpx.Response) -> str:
    url = response.request.url
    return f"{url.scheme}://{url.netloc.decode()}"
