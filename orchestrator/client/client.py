"""The clients: one for blocking code, one for asyncio. They have the same methods, in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx

from orchestrator.client.caller import Caller
from orchestrator.client.driving import Blocking, blocking
from orchestrator.client.models import Listing, Me, Worker
from orchestrator.client.rooms.batches import AsyncBatches, Batches
from orchestrator.client.rooms.keys import AsyncKeys, Keys
from orchestrator.client.rooms.runs import AsyncRuns, Runs
from orchestrator.client.rooms.sandboxes import AsyncSandboxes, Sandboxes
from orchestrator.client.rooms.schedules import AsyncSchedules, Schedules
from orchestrator.client.rooms.tenants import AsyncTenants, Tenants
from orchestrator.client.rooms.threads import AsyncThreads, Threads
from orchestrator.client.rooms.uploads import AsyncUploads, Uploads
from orchestrator.client.rooms.webhooks import AsyncWebhooks, Webhooks
from orchestrator.client.transport import AsyncTransport, BlockingTransport, Transport, timeouts
from orchestrator.errors import BadInput

DEFAULT_TIMEOUT = 30.0
"""Seconds for each piece of an answer to what does not wait for a run."""
KEPT_CONNECTIONS = 20
"""Idle connections that are kept. Any number may be in use: each run that is followed has one."""
_KEY = re.compile(r"(ffk_[0-9a-f]{12})_[A-Za-z0-9_-]+")


class _Doors:
    """What both clients have: the groups over one caller, and what belongs to none."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.url = caller.url
        self.runs = AsyncRuns(caller)
        self.uploads = AsyncUploads(caller)
        self.batches = AsyncBatches(caller)
        self.threads = AsyncThreads(caller)
        self.schedules = AsyncSchedules(caller)
        self.webhooks = AsyncWebhooks(caller)
        self.sandboxes = AsyncSandboxes(caller)
        self.keys = AsyncKeys(caller)
        self.tenants = AsyncTenants(caller)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def close(self) -> None:
        """Let go of the connections."""
        await self._caller.transport.close()

    async def me(self) -> Me:
        """Whose key this is, and what it opens."""
        return await self._caller.get(Me, "me")

    async def workers(self) -> Sequence[Worker]:
        """The workers that are alive, the oldest first."""
        return (await self._caller.get(Listing[Worker], "workers")).items


class AsyncClient(_Doors):
    """Talks to the API of a Fanfold installation. Close it when done, or use it in an `async with` statement.

    Its groups: `runs`, `uploads`, `batches`, `threads`, `schedules`, `webhooks`, `sandboxes`, `keys`, `tenants`. What a server
    refuses raises the errors of `orchestrator.errors`; what cannot be reached is asked again first, where that is safe.
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """`url` is the API's address without `/v1`. `timeout` is in seconds. Raises `BadInput` for an address that is none."""
        super().__init__(_caller(AsyncTransport, url, key, timeout))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Client(Blocking[_Doors]):
    """The blocking form of `AsyncClient`. Safe to use from many threads."""

    def __init__(self, url: str, key: str | None = None, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """See `AsyncClient`."""
        doors = _Doors(_caller(BlockingTransport, url, key, timeout))
        super().__init__(doors)
        self.url = doors.url
        self.runs = Runs(doors.runs)
        self.uploads = Uploads(doors.uploads)
        self.batches = Batches(doors.batches)
        self.threads = Threads(doors.threads)
        self.schedules = Schedules(doors.schedules)
        self.webhooks = Webhooks(doors.webhooks)
        self.sandboxes = Sandboxes(doors.sandboxes)
        self.keys = Keys(doors.keys)
        self.tenants = Tenants(doors.tenants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    close = blocking(_Doors.close)
    me = blocking(_Doors.me)
    workers = blocking(_Doors.workers)


def _caller(kind: Callable[..., Transport], url: str, key: str | None, timeout: float) -> Caller:
    return Caller(kind(**_options(url, key, timeout)), url.rstrip("/"), _shown(key))


def _options(url: str, key: str | None, timeout: float) -> dict[str, Any]:
    """What httpx is made with. Redirects are not followed: a key goes to the address that was given, and nowhere else."""
    _check(url)
    headers = {"User-Agent": f"fanfold/{version('fanfold')}"}
    if key:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise BadInput("the API key is none: it has characters that keys do not have; check FANFOLD_API_KEY")
        headers["Authorization"] = f"Bearer {key}"
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS)
    return {"base_url": url, "headers": headers, "timeout": timeouts(timeout), "limits": limits, "follow_redirects": False}


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or bool(parts.query or parts.fragment)
        wrong = wrong or parts.port == 0 or parts.username is not None
    except ValueError:
        wrong = True
    if wrong:
        raise BadInput("the API's address is none: write http://HOST:PORT or https://HOST, no user, no query (FANFOLD_URL)")


def _shown(key: str | None) -> str:
    """The key as messages name it: its id, which is no secret."""
    if not key:
        return "no key was given"
    known = _KEY.fullmatch(key)
    return f"key {known[1]}_..." if known else "a key of another form than ffk_..."
