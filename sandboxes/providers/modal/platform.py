"""The one way to Modal: the SDK's client and app, a deadline for every request, its exceptions translated."""

from __future__ import annotations

import asyncio
import contextlib
import os
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import modal
from modal.config import config
from modal.exception import SandboxTerminatedError, SandboxTimeoutError

from sandboxes.errors import ProviderUnavailable, SandboxError, SandboxGone, SandboxNotFound
from sandboxes.providers.ids import is_sandbox_id
from sandboxes.providers.modal.errors import KEYS, Late, translated

CONNECT_SECONDS: Final = 15.0
"""How long the first request may take; the SDK alone would try for a minute."""
REQUEST_SECONDS: Final = 30.0
"""How long any other may take."""
THROTTLE_SECONDS: Final = 10
"""How long the SDK waits in all when the platform limits its rate, unless MODAL_MAX_THROTTLE_WAIT says so; else for ever."""
ENDING_LOOKS: Final = 10
"""How often a sandbox that refused something is looked at, before it is taken for alive."""
ENDING_PAUSE: Final = 0.1
"""Seconds between two looks."""
TERMINATE_SECONDS: Final = 60.0

T = TypeVar("T")


class Platform:
    """One workspace of Modal, and one app in it. Cheap to make: the first use connects. Lives on one event loop."""

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self._connecting = asyncio.Lock()
        self._connection: tuple[modal.Client, modal.App] | None = None
        self._known: dict[str, modal.Sandbox] = {}
        self._users: dict[str, int] = {}
        os.environ.setdefault("MODAL_MAX_THROTTLE_WAIT", str(THROTTLE_SECONDS))

    async def ask(self, what: str, work: Awaitable[T], seconds: float = REQUEST_SECONDS) -> T:
        """Await a request; `what` continues "Modal refuses to ...". Raises our errors."""
        try:
            async with asyncio.timeout(seconds) as limit:
                return await work
        except Exception as exc:
            raise translated(what, Late(f"{seconds:g} s") if limit.expired() else exc) from exc

    async def client(self) -> modal.Client:
        """The SDK's client. Raises `NotAuthenticated` or `ProviderUnavailable`."""
        return (await self._connected())[0]

    async def app(self) -> modal.App:
        """The app that all sandboxes belong to; it is made when it is not there. Raises as `client`."""
        return (await self._connected())[1]

    async def _connected(self) -> tuple[modal.Client, modal.App]:
        async with self._connecting:
            if self._connection is None:
                self._connection = await self.ask("let us in", self._connect(), CONNECT_SECONDS)
            return self._connection

    async def _connect(self) -> tuple[modal.Client, modal.App]:
        token, secret = config.get("token_id"), config.get("token_secret")
        if not (token and secret):
            raise ProviderUnavailable(f"there is no key for Modal here. {KEYS}")
        await _knock()
        client = await modal.Client.from_credentials.aio(token, secret)
        try:
            return client, await modal.App.lookup.aio(self.app_name, create_if_missing=True, client=client)
        except BaseException:
            await client.close.aio()
            raise

    def met(self, sandbox_id: str, sandbox: modal.Sandbox) -> None:
        """Keep what was just made, for the first attachment."""
        self._known[sandbox_id] = sandbox

    async def sandbox(self, sandbox_id: str) -> modal.Sandbox:
        """The sandbox of this id, which runs or has ended. Raises `SandboxNotFound`."""
        return self._known.get(sandbox_id) or await self.look_up(sandbox_id)

    async def look_up(self, sandbox_id: str) -> modal.Sandbox:
        """The same, asked anew: a sandbox's name on the platform is its id. Raises `SandboxNotFound`."""
        if not is_sandbox_id(sandbox_id):
            raise SandboxNotFound(f"{sandbox_id!r:.80} is not the id of a Modal sandbox")
        client = await self.client()
        asked = modal.Sandbox.from_name.aio(self.app_name, sandbox_id, include_terminated=True, client=client)
        try:
            return await self.ask("find a sandbox", asked)
        except SandboxNotFound as exc:
            raise SandboxNotFound(f"no sandbox {sandbox_id} is in the app {self.app_name!r} of Modal: it never was") from exc

    async def use(self, sandbox_id: str) -> contextlib.AsyncExitStack:
        """Hold the connection to a sandbox, which all who use it share. To be closed; the last one closes the connection."""
        self._known[sandbox_id] = await self.sandbox(sandbox_id)
        self._users[sandbox_id] = self._users.get(sandbox_id, 0) + 1
        held = contextlib.AsyncExitStack()
        held.push_async_callback(self._leave, sandbox_id)
        return held

    async def _leave(self, sandbox_id: str) -> None:
        if sandbox_id in self._users:
            self._users[sandbox_id] -= 1
            if not self._users[sandbox_id]:
                await self.forget(sandbox_id)

    async def forget(self, sandbox_id: str) -> None:
        """Close the connection to a sandbox."""
        self._users.pop(sandbox_id, None)
        if (sandbox := self._known.pop(sandbox_id, None)) is not None:
            detach: Callable[[], Awaitable[None]] = sandbox.detach.aio
            await detach()

    async def raise_if_ended(self, sandbox_id: str, *, looks: int = 1) -> None:
        """Raise why the sandbox has ended, or is about to: the platform may say so a moment after it has refused something."""
        found = await self.sandbox(sandbox_id)
        for look in range(looks):
            if await self.ask("look at a sandbox", found.poll.aio()) is not None:
                raise await self._why(sandbox_id, found)
            if look < looks - 1:
                await asyncio.sleep(ENDING_PAUSE)

    async def _why(self, sandbox_id: str, found: modal.Sandbox) -> SandboxError:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await found.wait.aio()
        except SandboxTimeoutError:
            return SandboxGone(f"Modal sandbox {sandbox_id} has ended: its lifetime is over")
        except SandboxTerminatedError:
            return SandboxNotFound(f"Modal sandbox {sandbox_id} was destroyed: somebody has terminated it")
        except Exception as exc:
            raise translated("look at a sandbox", exc) from exc
        if found.returncode == 0:
            return SandboxGone(f"Modal sandbox {sandbox_id} has ended: its idle limit was over, or the platform stopped it")
        return SandboxGone(f"Modal sandbox {sandbox_id} has ended: its first process was killed or failed ({found.returncode})")

    async def terminate(self, sandbox_id: str) -> None:
        """End a sandbox, and wait for that. What is not there is no error."""
        try:
            found = await self.look_up(sandbox_id)
            if found.returncode is None:
                await self.ask("end a sandbox", found.terminate.aio(wait=True), TERMINATE_SECONDS)
        except (SandboxNotFound, SandboxGone):
            pass
        await self.forget(sandbox_id)

    async def tags_of(self, sandbox: modal.Sandbox) -> Mapping[str, str]:
        """Its tags; none when it has gone meanwhile."""
        try:
            return await self.ask("tell a sandbox's tags", sandbox.get_tags.aio())
        except (SandboxNotFound, SandboxGone):
            return {}

    async def unless_ended(self, sandbox_id: str, work: Callable[[modal.Sandbox], Awaitable[T]]) -> T:
        """Ask something of a sandbox. Where that fails because it has ended, this says why."""
        sandbox = await self.sandbox(sandbox_id)
        try:
            return await work(sandbox)
        except SandboxError:
            await self.raise_if_ended(sandbox_id, looks=ENDING_LOOKS)
            raise

    async def aclose(self) -> None:
        """Close the connections. Sandboxes go on."""
        for sandbox_id in list(self._known):
            await self.forget(sandbox_id)
        if self._connection is not None:
            await self._connection[0].close.aio()
        self._connection = None


async def _knock() -> None:
    """Raise the plain `OSError` of a service that cannot be reached: the SDK would try for a minute, whatever its caller does.

    Behind a proxy nothing can be said before.
    """
    if urllib.request.getproxies() and not config.get("disable_api_proxy"):
        return
    failure: OSError | None = None
    for url in str(config.get("server_url")).split(","):
        parts = urllib.parse.urlsplit(url.strip())
        try:
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        except OSError as exc:
            failure = exc
        else:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return
    raise failure or ConnectionError("there is no address in MODAL_SERVER_URL")


Process = Any
"""`modal.container_process.ContainerProcess[bytes]`, whose synchronous and asynchronous faces mypy cannot tell apart."""
