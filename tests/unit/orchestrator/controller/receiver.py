"""A receiver of webhooks on this machine: a real server, whose answers a test chooses."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answering = Callable[[BaseHTTPRequestHandler, int], None]
"""Answers a request; the number counts the requests from 1."""


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """What has come so far."""

    port: int
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hook"


def status(*codes: int) -> Answering:
    """Answers with these, one after the other; the last one again and again."""

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        handler.send_response(codes[min(number, len(codes)) - 1])
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"ok")

    return answer


@contextmanager
def receiving(answer: Answering | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Receive until the block ends; every request is answered with 204 when nothing else is said."""
    respond = answer or status(204)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                receiver.received.append(Received(self.path, dict(self.headers), body))
                number = len(receiver.received)
            respond(self, number)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that does not like our certificate

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver = Receiver(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
