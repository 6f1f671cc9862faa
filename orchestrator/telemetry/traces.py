"""Traces by OpenTelemetry: one from a request, or a submission, to what its run did.

Without the SDK (`fanfold[tracing]`), or without an address to send to, spans cost next to nothing and go nowhere; a trace that
a caller began is passed on all the same. What a span tells holds no texts: neither prompts nor outputs nor messages of errors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from orchestrator.errors import BadInput

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Variables that say where spans are sent, as OpenTelemetry has them."""
HEADER = "traceparent"
"""Name of the header in which a trace travels (W3C)."""

tracer = trace.get_tracer("fanfold")
"""Makes our spans. It is the no-op one until `configure_traces` has been called."""


def configure_traces(role: str, environ: Mapping[str, str] = os.environ) -> Callable[[], None]:
    """Send this process's spans to where the environment says, if it does. Call what comes back at the process's end.

    `role` is what the process does (`worker`, `api`). The SDK's own variables hold too (`OTEL_SERVICE_NAME`,
    `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SDK_DISABLED`). Raises `BadInput` when the extra is missing.
    """
    if not any(environ.get(name) for name in ENDPOINTS):
        return _nothing
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return _nothing  # this process sends spans already
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as exc:
        raise BadInput(f"{ENDPOINTS[0]} is set, and traces cannot be sent ({exc}): `pip install 'fanfold[tracing]'`") from exc
    name = environ.get("OTEL_SERVICE_NAME") or f"fanfold-{role}"
    provider = TracerProvider(resource=Resource.create({"service.name": name, "fanfold.role": role}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def _nothing() -> None:
    """There is nothing to be sent."""


def current_traceparent() -> str | None:
    """The trace that goes on here, and the span in it, as W3C's header has it; None outside of any."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(HEADER)


@contextmanager
def continue_trace(traceparent: str | None) -> Iterator[None]:
    """Let spans inside belong to that trace. None, or what is no such header, leaves all as it is."""
    found = TraceContextTextMapPropagator().extract({HEADER: traceparent}) if traceparent else None
    if found is None or not trace.get_current_span(found).get_span_context().is_valid:
        yield
        return
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def span(
    name: str, attributes: Mapping[str, AttributeValue | None] | None = None, *, kind: SpanKind = SpanKind.INTERNAL
) -> Iterator[Span]:
    """A span around what is done inside, below the one that is current. Attributes that are None are left out.

    An exception makes it a failed one and is named by its class; a cancellation is no failure.
    """
    told = {key: value for key, value in (attributes or {}).items() if value is not None}
    with tracer.start_as_current_span(
        name, kind=kind, attributes=told, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except asyncio.CancelledError:
            current.set_attribute("fanfold.cancelled", True)
            raise
        except Exception as exc:
            failed(current, exc)
            raise


def failed(current: Span, exc: BaseException) -> None:
    """Make a span a failed one. The text of the exception is left out: it may hold anything."""
    kind = type(exc).__name__
    current.set_attribute("error.type", kind)
    current.set_status(Status(StatusCode.ERROR, kind))
