"""A place that takes spans by OTLP over HTTP, as a collector of traces does."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse


@dataclass(frozen=True)
class ReceivedSpan:
    """One span."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    failed: bool


class Receiver:
    """What has been received."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[ReceivedSpan] = []
        self.raw = b""
        """All that was sent, as it was."""
        self.url = ""

    @property
    def spans(self) -> list[ReceivedSpan]:
        with self._lock:
            return list(self._spans)

    def named(self, beginning: str) -> list[ReceivedSpan]:
        """The spans whose names begin so."""
        return [span for span in self.spans if span.name.startswith(beginning)]

    def take(self, body: bytes) -> None:
        """One request."""
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            self.raw += body
            for part in request.resource_spans:
                service = _values(part.resource.attributes)["service.name"]
                self._spans += [_span(service, span) for scope in part.scope_spans for span in scope.spans]


def _span(service: str, span: Any) -> ReceivedSpan:
    return ReceivedSpan(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        _values(span.attributes),
        span.status.code == 2,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    """A receiver on a port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()
