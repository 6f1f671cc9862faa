"""Spans of calls into a sandbox, where somebody traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

POLLS = frozenset({"hello", "poll", "wait"})
"""Calls that ask how something goes that another call began."""

_tracer = trace.get_tracer("fanfold")


@contextmanager
def call_span(op: str) -> Iterator[None]:
    """Around one call, below the span that is recorded; nothing where there is none, and for `POLLS`."""
    if op in POLLS or not trace.get_current_span().is_recording():
        yield
        return
    with _tracer.start_as_current_span(
        f"sandbox {op}", kind=SpanKind.CLIENT, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except Exception as exc:
            span.set_attribute("error.type", type(exc).__name__)
            span.set_status(Status(StatusCode.ERROR, type(exc).__name__))
            raise
