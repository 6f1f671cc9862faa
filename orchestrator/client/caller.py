"""Asking the API: requests with what every one carries, tries, and answers as types or errors."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from orchestrator.client.problems import Unavailable, error_of, retry_after
from orchestrator.client.retrying import Tries
from orchestrator.client.transport import Ask, Stream, Transport
from orchestrator.errors import BadInput, FanfoldError, InfrastructureError
from orchestrator.telemetry.traces import HEADER, current_traceparent

M = TypeVar("M", bound=BaseModel)

PREFIX = "/v1"
_PASSING = frozenset({502, 503, 504})
"""Statuses of a server, or of a proxy before it, that is not there for the moment."""
_REFUSED = frozenset({429})
"""Statuses of a request that was not looked at: it may be sent again whatever it asks for."""
_CODING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_JSON = {"Content-Type": "application/json"}


class Caller:
    """Sends requests over a transport, again where that is safe. `shown_key` names the key in messages."""

    def __init__(self, transport: Transport, url: str, shown_key: str) -> None:
        self.transport = transport
        self.url = url
        self._shown_key = shown_key

    async def ask(self, ask: Ask) -> httpx.Response:
        """The answer to a request, which is a success. Raises a `FanfoldError` that says what the server said.

        A trace that goes on here goes on there.
        """
        tries = Tries()
        if traceparent := current_traceparent():
            ask = replace(ask, headers={**ask.headers, HEADER: traceparent})
        while True:
            error: FanfoldError
            again, asked = ask.repeatable, None
            try:
                response = await self.transport.send(ask)
            except httpx.TransportError as exc:
                error = self.unreachable(exc)
                again = again or isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout)
            else:
                if response.is_success or (tries.made and _gone(ask, response)):
                    return response
                error, asked = self.refused(response), retry_after(response)
                again = response.status_code in _REFUSED or (again and response.status_code in _PASSING)
            wait = tries.next_wait(asked) if again else None
            if wait is None:
                raise error
            await self.transport.sleep(wait)

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[Stream]:
        """The answer to a request as it comes. It is sent once; raises as `ask` does, also while the answer is read."""
        try:
            async with self.transport.stream(ask) as stream:
                if not stream.response.is_success:
                    raise self.refused(await _whole(stream))
                yield stream
        except httpx.TransportError as exc:
            raise self.unreachable(exc) from exc

    def refused(self, response: httpx.Response) -> FanfoldError:
        """The error for an answer that is none of success."""
        return error_of(response, self._shown_key)

    def unreachable(self, exc: httpx.TransportError) -> Unavailable:
        """The error for an answer that did not come."""
        why = str(exc) or type(exc).__name__
        error = Unavailable(f"the API at {self.url} cannot be reached: {why}; check FANFOLD_URL, and that it runs")
        error.__cause__ = exc
        return error

    # What rooms ask

    async def get(
        self, kind: type[M], *path: str, params: Mapping[str, object] | None = None, patience: float | None = None
    ) -> M:
        """What is at `path`."""
        ask = Ask("GET", at(*path), queried(params), repeatable=True, patience=patience)
        return self.parsed(kind, await self.ask(ask))

    async def post(
        self, kind: type[M], *path: str, body: object = None, key: str | None = None, repeatable: bool = False
    ) -> M:
        """Have something made or done. With an idempotency `key` it is done once, however often it is asked for."""
        headers = _JSON if key is None else {**_JSON, "Idempotency-Key": key}
        content = None if body is None else encoded(body)
        ask = Ask("POST", at(*path), headers=headers, content=content, repeatable=repeatable or key is not None)
        return self.parsed(kind, await self.ask(ask))

    async def change(self, kind: type[M], method: str, *path: str, body: object) -> M:
        """Have something be as `body` says: PATCH or PUT."""
        return self.parsed(kind, await self.ask(Ask(method, at(*path), headers=_JSON, content=encoded(body), repeatable=True)))

    async def delete(self, *path: str, params: Mapping[str, object] | None = None) -> None:
        """Remove what is at `path`. That it is gone when it had to be asked for again is no error."""
        await self.ask(Ask("DELETE", at(*path), queried(params), repeatable=True))

    def parsed(self, kind: type[M], response: httpx.Response) -> M:
        """An answer as a type. Raises `InfrastructureError` when it has another form."""
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise InfrastructureError(
                f"{self.url} does not answer as this version's API does ({response.request.url.path}: {where}: {first['msg']}):"
                " check FANFOLD_URL, and that client and server are of one version"
            ) from exc


def new_key() -> str:
    """An idempotency key that nobody has used."""
    return secrets.token_hex(16)


def at(*path: str) -> str:
    """The path of these segments, each quoted: none can lead elsewhere."""
    return "/".join([PREFIX, *(_segment(part) for part in path)])


def queried(params: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    """A query without what is None; a list gives its key several times."""
    found: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if one is not None:
                found.append((name, _text(one)))
    return tuple(found)


def encoded(body: object) -> bytes:
    """JSON without what is None at its top."""
    given: Any = {key: value for key, value in body.items() if value is not None} if isinstance(body, dict) else body
    return json.dumps(given).encode()


def _segment(part: str) -> str:
    if not part:
        raise BadInput("an id must not be empty")
    quoted = quote(part, safe="", errors="replace")
    return quoted.replace(".", "%2E") if part in (".", "..") else quoted


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if isoformat else str(value)


def _gone(ask: Ask, response: httpx.Response) -> bool:
    """Whether what was to be removed is not there: an earlier try has removed it, and its answer was lost."""
    return ask.method == "DELETE" and response.status_code == httpx.codes.NOT_FOUND


async def _whole(stream: Stream) -> httpx.Response:
    """An answer with its body, and without the headers that said how it was coded on the way."""
    given = stream.response
    headers = {name: value for name, value in given.headers.items() if name not in _CODING}
    body = b"".join([piece async for piece in stream.pieces])
    return httpx.Response(given.status_code, headers=headers, content=body, request=given.request)
