"""The one way to Daytona: the SDK's client, requests within deadlines, and exceptions in our words."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from daytona import AsyncDaytona, AsyncSandbox, DaytonaConfig, DaytonaError, DaytonaNotFoundError, DaytonaRateLimitError

from sandboxes.errors import FanfoldSandboxError
from sandboxes.portal import Portal, on
from sandboxes.providers.daytona.errors import is_transport, retry_after, translated

PATIENCE: Final = 15.0
"""Seconds for which a request is tried again that did not get through, or came too early."""
REQUEST_SECONDS: Final = 60.0
"""How long one request may take."""
PAUSE: Final = 0.25
"""Seconds before the first repetition; each later one waits twice as long."""
LONGEST_PAUSE: Final = 4.0
MET: Final = 1000
"""Sandboxes that are kept in mind at most."""

URL_VARIABLE: Final = "DAYTONA_API_URL"
CLOUD: Final = "https://app.daytona.io/api"
"""Where the API is when nothing says so."""

T = TypeVar("T")
_portal: Final = Portal()
"""The loop that the SDK lives on. It asks its loop's threads something with each request, and those of a caller's loop may all
be taken by sync calls that wait for that request."""


class Account:
    """An organization on Daytona. Cheap to make: the first use connects. What is the SDK's is used within `there`."""

    def __init__(self, api_key: str | None, api_url: str | None, target: str | None) -> None:
        given = {"api_key": api_key, "target": target, "api_url": api_url or os.environ.get(URL_VARIABLE) or CLOUD}
        self._settings = {key: value for key, value in given.items() if value}
        self._client: AsyncDaytona | None = None
        self._met: dict[str, AsyncSandbox] = {}

    def meet(self, sandbox: AsyncSandbox) -> None:
        """Keep what was just made or looked at, so that it need not be asked for again: see `take`."""
        self._met.pop(sandbox.name, None)
        self._met[sandbox.name] = sandbox
        if len(self._met) > MET:
            del self._met[next(iter(self._met))]

    def take(self, name: str) -> AsyncSandbox | None:
        """What was met under this name, once. It may have ended meanwhile: whoever asks something of it is told."""
        return self._met.pop(name, None)

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something on the loop that the SDK lives on."""
        return await on(_portal.loop, work)

    async def connected(self) -> AsyncDaytona:
        """The SDK's client, for use within `there`. Raises `NotAuthenticated` without a key."""
        if self._client is None:
            try:
                self._client = AsyncDaytona(DaytonaConfig(**self._settings))
            except DaytonaError as exc:
                raise translated(exc, "connect") from exc
        return self._client

    async def run(
        self, what: str, work: Callable[[AsyncDaytona], Awaitable[T]], *, deadline: float = REQUEST_SECONDS, again: bool = True
    ) -> T:
        """Do something with the client; `what` continues "Daytona refused to ...".

        What did not get through is repeated for `PATIENCE` seconds, unless `again` says that it may not be done twice.
        Raises `FanfoldSandboxError`.
        """
        return await self.there(self._run(what, work, deadline, again))

    async def _run(self, what: str, work: Callable[[AsyncDaytona], Awaitable[T]], deadline: float, again: bool) -> T:
        client = await self.connected()
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
        """Close the connections."""
        await self.there(self._close())

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()  # type: ignore[no-untyped-call]


def _wait(exc: BaseException, pause: float, again: bool) -> float | None:
    """Seconds until the next try; None when there is to be none."""
    if isinstance(exc, DaytonaRateLimitError):
        asked = retry_after(exc)
        return pause if asked is None else max(pause, asked)
    return pause if again and is_transport(exc) else None
