"""The one way to Daytona: the SDK's client, requests within deadlines, and exceptions in our words."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from daytona import AsyncDaytona, AsyncSandbox, DaytonaConfig, DaytonaError, DaytonaNotFoundError, DaytonaRateLimitError

from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.daytona.errors import is_transport, retry_after, translated

PATIENCE: Final = 15.0
"""Seconds for which a request is tried again that did not get through, or came too early."""
REQUEST_SECONDS: Final = 60.0
"""How long one request may take."""
PAUSE: Final = 0.25
"""Seconds before the first repetition; each later one waits twice as long."""
LONGEST_PAUSE: Final = 4.0

URL_VARIABLE: Final = "DAYTONA_API_URL"
CLOUD: Final = "https://app.daytona.io/api"
"""Where the API is when nothing says so."""

T = TypeVar("T")
_Loops = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncDaytona]


class Account:
    """An organization on Daytona. Cheap to make: the first use connects, once for each event loop."""

    def __init__(self, api_key: str | None, api_url: str | None, target: str | None) -> None:
        given = {"api_key": api_key, "target": target, "api_url": api_url or os.environ.get(URL_VARIABLE) or CLOUD}
        self._settings = {key: value for key, value in given.items() if value}
        self._clients: _Loops = weakref.WeakKeyDictionary()

    def client(self) -> AsyncDaytona:
        """The SDK's client of the running loop. Raises `NotAuthenticated` without a key."""
        loop = asyncio.get_running_loop()
        found = self._clients.get(loop)
        if found is None:
            try:
                found = AsyncDaytona(DaytonaConfig(**self._settings))
            except DaytonaError as exc:
                raise translated(exc, "connect") from exc
            self._clients[loop] = found
        return found

    async def run(
        self, what: str, work: Callable[[AsyncDaytona], Awaitable[T]], *, deadline: float = REQUEST_SECONDS, again: bool = True
    ) -> T:
        """Do something with the client; `what` continues "Daytona refused to ...".

        What did not get through is repeated for `PATIENCE` seconds, unless `again` says that it may not be done twice.
        Raises `FanfoldSandboxError`.
        """
        client = self.client()
        begun = time.monotonic()
        pause = PAUSE
        while True:
            try:
                async with asyncio.timeout(deadline):
                    return await work(client)
            except FanfoldSandboxError:
                raise
            except (DaytonaError, OSError, TimeoutError) as exc:
                wait = _wait(exc, pause, again)
                if wait is None or time.monotonic() + wait - begun > PATIENCE:
                    raise translated(exc, what, retried=time.monotonic() - begun) from exc
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def find(self, name: str) -> AsyncSandbox | None:
        """The sandbox of this name, in whatever state; None when there is none."""

        async def look(client: AsyncDaytona) -> AsyncSandbox | None:
            try:
                return await client.get(name)
            except DaytonaNotFoundError:
                return None

        found = await self.run("look at a sandbox", look)
        return None if found is None or str(found.state.value if found.state else "") == "destroyed" else found

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]


def _wait(exc: BaseException, pause: float, again: bool) -> float | None:
    """Seconds until the next try; None when there is to be none."""
    if isinstance(exc, DaytonaRateLimitError):
        asked = retry_after(exc)
        return pause if asked is None else max(pause, asked)
    return pause if again and is_transport(exc) else None
