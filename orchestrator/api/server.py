"""The server of the API: it listens, and ends without leaving a request half answered."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from orchestrator.api.app import create_app
from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.service import Service

GRACE = 10
"""Seconds that requests have to be answered once the server is told to end."""
KEEP_ALIVE = 75
"""Seconds that a connection stays open between two requests: longer than load balancers and clients keep theirs, so that none
sends a request into a connection that is being closed."""
BACKLOG = 1024
"""Connections that wait to be taken."""

_log = logging.getLogger("fanfold.api")


class ApiServer(uvicorn.Server):
    """It ends on SIGTERM and SIGINT, and then its process goes on: whoever runs it has to clear up."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for as long as it serves; only a process's main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wanted = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self.handle_exit) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_server(service: Service) -> ApiServer:
    """A server for `service`: `run(sockets=[listen(...)])` it; it ends on a signal, or when `should_exit` is set.

    Answers that wait or stream end as soon as it is told to.
    """
    server: ApiServer
    config = uvicorn.Config(
        create_app(service, stopping=lambda: server.should_exit),
        access_log=False,
        log_config=None,
        server_header=False,
        lifespan="on",
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=KEEP_ALIVE,
        proxy_headers=False,  # who is on the other end of a proxy is of no importance here: no header of it is believed
    )
    server = ApiServer(config)
    return server


def serve(service: Service, *, host: str, port: int) -> None:
    """Serve until this process is told to end; port 0 is any that is free.

    While the record or the broker does not answer, `/readyz` says so. Raises `BadInput` when it cannot listen there.
    """
    try:
        service.check()
    except InfrastructureError as exc:
        _log.warning("not ready: %s", exc)
    with listen(host, port) as listening:
        server = make_server(service)
        _log.info("the API is at %s", address_of(listening))
        try:
            server.run(sockets=[listening])
        except SystemExit as exc:  # how uvicorn says that the application did not begin
            raise InfrastructureError("the API could not be started; its log says why") from exc


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `BadInput`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as exc:
        raise BadInput(f"the API cannot listen at {host}:{port}: {getattr(exc, 'strerror', None) or exc}") from exc
    # Its connections inherit this. Without it each answer waits some 40 ms for the client to acknowledge its first part.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def address_of(listening: socket.socket) -> str:
    """`http://HOST:PORT`."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
