"""What users of the API do, each as one request."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx

KNOWN = 1000
"""Runs that are asked for: the newest of those that were submitted here."""
PAGE = 20
"""Runs of a page of a listing."""
HOLD = 1.0
"""Seconds that a stream of events is read; a run that ends meanwhile ends it."""
TASK: Mapping[str, Any] = {"name": "load", "command": "true", "sandbox": {"provider": "local"}}
MIX = {"submit": 1, "read": 6, "list": 2, "stream": 1}
"""How often each is done, by default."""


class Failed(Exception):
    """An answer that is a failure: `503`, or the kind of error that was met on the way to it."""


class Operations:
    """Each waits until the answer begins, or, where it has a body to be read, ends. Raises `Failed`."""

    def __init__(self, client: httpx.AsyncClient, task: Mapping[str, Any] = TASK) -> None:
        """`client` has the API's address and the key."""
        self._client = client
        self._task = task
        self._known: deque[str] = deque(maxlen=KNOWN)
        self._reading: set[asyncio.Task[None]] = set()

    def named(self, name: str) -> Callable[[], Awaitable[None]]:
        """An operation of `MIX`."""
        found: dict[str, Callable[[], Awaitable[None]]] = {
            "submit": self.submit, "read": self.read, "list": self.list, "stream": self.stream
        }  # fmt: skip
        return found[name]

    async def submit(self) -> None:
        """Submit a run."""
        answer = await self._ask("POST", "/v1/runs", json={"task": self._task, "labels": {"load": "yes"}})
        self._known.append(answer.json()["id"])

    async def read(self) -> None:
        """Read a run that was submitted here."""
        await self._ask("GET", f"/v1/runs/{self._some()}")

    async def list(self) -> None:
        """List the newest runs."""
        await self._ask("GET", "/v1/runs", params={"limit": PAGE})

    async def stream(self) -> None:
        """Follow the events of a run. The answer's begin counts; the stream is held open for a while after it."""
        request = self._client.build_request(
            "GET", f"/v1/runs/{self._some()}/events", headers={"Accept": "text/event-stream"}
        )
        answer = await self._sent(self._client.send(request, stream=True))
        reader = asyncio.create_task(_read(answer))
        self._reading.add(reader)
        reader.add_done_callback(self._reading.discard)

    async def ended(self) -> None:
        """Wait for the streams that are held open."""
        await asyncio.gather(*self._reading)

    def _some(self) -> str:
        return random.choice(self._known)

    async def _ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        return await self._sent(self._client.request(method, path, **given))

    async def _sent(self, answer: Awaitable[httpx.Response]) -> httpx.Response:
        try:
            found = await answer
        except httpx.TransportError as exc:
            raise Failed(type(exc).__name__) from exc
        if not found.is_success:
            await found.aclose()
            raise Failed(str(found.status_code))
        return found


async def _read(answer: httpx.Response) -> None:
    try:
        async with asyncio.timeout(HOLD):
            async for _ in answer.aiter_raw():
                pass
    except (TimeoutError, httpx.TransportError):
        pass
    finally:
        await answer.aclose()
