"""A server that speaks Modal's protocol, so that the real SDK runs against it: a test instrument, and no part of the product.

Its sandboxes are containers of the Docker engine of this machine: root in any image, with a system that can be written, as the
platform's are. What it does not speak it refuses as UNIMPLEMENTED, by name. Where it is less than the platform: an allowlist
of hosts lets nothing through; images are those that the engine has, and what it builds of Dockerfiles with a few instructions
(`workshop.SPOKEN`); there are no volumes, secrets by name, ports, terminals or memory snapshots.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.wire.modal import control, earlier, router
from tests.wire.modal.counts import Counts
from tests.wire.modal.faults import Faults
from tests.wire.modal.fleet import Fleet, Result, Sandbox
from tests.wire.modal.keys import Keys
from tests.wire.modal.services import Guard, complete

HOST: Final = "127.0.0.1"
CALL_SECONDS: Final = 60.0
STOP_SECONDS: Final = 300.0
"""How long the end may take: every sandbox and every copy is removed, which a busy engine does one after the other."""
T = TypeVar("T")


@dataclass
class WireServer:
    """Made and started by `serving`. Its methods may be called from any thread."""

    owner: str = field(default_factory=lambda: secrets.token_hex(8))
    keys: Keys = field(default_factory=Keys)
    counts: Counts = field(default_factory=Counts)
    faults: Faults = field(default_factory=Faults)
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def environment(self) -> dict[str, str]:
        """What a user exports to reach it."""
        return {
            "MODAL_SERVER_URL": f"http://{HOST}:{self.port}",
            "MODAL_TOKEN_ID": self.keys.token_id,
            "MODAL_TOKEN_SECRET": self.keys.token_secret,
            "MODAL_CONFIG_PATH": "/nonexistent",
            "MODAL_DISABLE_API_PROXY": "1",
        }

    async def start(self) -> None:
        """Listen."""
        self.fleet = Fleet(self.owner)
        self._server = await self._listening()

    async def _listening(self) -> Server:
        # The port is known only once it listens, and the services are bound before: it is taken in two steps.
        if not self.port:
            probe = await asyncio.start_server(lambda _r, _w: None, HOST, 0)
            self.port = probe.sockets[0].getsockname()[1]
            probe.close()
            await probe.wait_closed()
        guard = self._guard = Guard(self.keys, self.counts, self.faults)
        url = self.environment["MODAL_SERVER_URL"]
        before = earlier.Spoken(self.fleet, self.keys, url)
        methods = complete(ModalClientBase, control.Spoken(self.fleet, self.keys, url), before) | before.handlers()
        plane = guard.around(methods, control=True)
        commands = guard.around(complete(TaskCommandRouterBase, router.Spoken(self.fleet, self.keys)), control=False)
        server = Server([plane, commands], status_details_codec=custom_detail_codec)
        await server.start(HOST, self.port)
        return server

    async def stop(self) -> None:
        """Stop listening, and end everything."""
        await self._silence()
        await self.fleet.aclose()

    async def _silence(self) -> None:
        self._server.close()
        await self._guard.disconnect()
        await self._server.wait_closed()

    def run(self, work: Coroutine[Any, Any, T], seconds: float = CALL_SECONDS) -> T:
        """Do something on the server's loop, from another thread."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(seconds)

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """For a while nobody listens: connections are refused. Sandboxes go on."""
        self.run(self._silence())
        try:
            yield
        finally:
            self._server = self.run(self._listening())

    def sandboxes(self, *, ended: bool = False) -> list[Sandbox]:
        """Those that run; with `ended` also all that ever did."""
        return [one for one in self.fleet.sandboxes.values() if ended or one.runs]

    def sandbox(self, name: str) -> Sandbox:
        """The last one of this name."""
        return next(one for one in reversed(self.fleet.sandboxes.values()) if one.name == name)

    def end(self, name: str, status: Result.GenericStatus.ValueType, exitcode: int = 0) -> None:
        """End a sandbox from outside: TIMEOUT is its lifetime, TERMINATED somebody, SUCCESS its idleness, FAILURE a crash."""
        self.run(self.fleet.end(self.sandbox(name), Result(status=status, exitcode=exitcode)))


@contextlib.contextmanager
def serving() -> Iterator[WireServer]:
    """A server in a thread of its own; at the end nothing of it is left."""
    logging.getLogger("grpclib").setLevel(logging.CRITICAL)  # it logs what is broken on demand
    server = WireServer()
    thread = threading.Thread(target=server._loop.run_forever, name="modal-wire", daemon=True)
    thread.start()
    try:
        server.run(server.start())
        yield server
    finally:
        server.run(server.stop(), STOP_SECONDS)
        server._loop.call_soon_threadsafe(server._loop.stop)
        thread.join(CALL_SECONDS)
        server._loop.close()
