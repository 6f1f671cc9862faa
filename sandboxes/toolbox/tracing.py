"""Spans of calls into a sandbox, where somebody traces. Without OpenTelemetry, which is not needed here, there are none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

POLLS = frozenset({"hello", "poll", "wait"})
"""Calls that ask how something goes that another call began."""


@cache
def _opentelemetry() -> Any:
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return None
    return trace


@contextmanager
def call_span(op: str) -> Iterator[None]:
    """Around one call, below the span that is recorded; nothing where there is none, and for `POLLS`."""
    trace = _opentelemetry()
    if trace is None or op in POLLS or not trace.get_current_span().is_recording():
        yield
        return
    with trace.get_tracer("fanfold").start_as_current_span(
        f"sandbox {op}", kind=trace.SpanKind.CLIENT, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except Exception as exc:
            span.set_attribute("error.type", type(exc).__name__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, type(exc).__name__))
            raise
