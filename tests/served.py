"""The API on a free port of this machine: a real server, and clients with keys."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import httpx

from orchestrator.api.server import address_of, listen, make_server
from orchestrator.service import Service

TIMEOUT = 60.0
"""Seconds for one answer."""


@dataclass(frozen=True)
class Api:
    """A server, and what opens it."""

    url: str
    """`http://127.0.0.1:PORT`, without the `/v1`."""
    key: str
    """A key of the tenant `default` with the scope `admin`."""
    service: Service
    """The service behind it, of the tenant `default`."""
    opened: ExitStack = field(repr=False)
    stop: Callable[[], None] = field(repr=False)
    """Tell the server to end."""

    def new_key(self, *scopes: str, tenant: str = "default", expires_in: float | None = None) -> str:
        """Another key."""
        made = self.service.of(tenant).keys.create("test", scopes or ("admin",), expires_in=expires_in)
        return made.text

    def client(self, key: str | None = "") -> httpx.Client:
        """A client with a key (default: `key`; None: without one). Its addresses begin at the server's root."""
        text = self.key if key == "" else key
        headers = {"Authorization": f"Bearer {text}"} if text else {}
        return self.opened.enter_context(httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT, trust_env=False))

    def of(self, tenant: str, *scopes: str) -> httpx.Client:
        """A client of another tenant, by default with every scope."""
        return self.client(self.new_key(*scopes, tenant=tenant))


@contextmanager
def serving(service: Service) -> Iterator[Api]:
    """Serve over this service until the block ends."""
    service.check()
    with listen("127.0.0.1", 0) as listening, ExitStack() as opened:
        server = make_server(service)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api")
        thread.start()

        def stop() -> None:
            server.should_exit = True

        try:
            key = service.keys.create("test", ("admin",)).text
            api = Api(address_of(listening), key, service, opened, stop)
            assert api.client(None).get("/healthz").status_code == 200
            yield api
        finally:
            stop()
            thread.join()
