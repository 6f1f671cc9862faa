"""Traces go on from process to process, with an exporter and without one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from orchestrator.telemetry import traces
from orchestrator.telemetry.traces import configure_traces, continue_trace, current_traceparent, span

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Takes the spans of this test alone: the process's own provider can be set once and never again."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(traces, "tracer", provider.get_tracer("test"))
    yield found
    provider.shutdown()


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (found,) = exporter.get_finished_spans()
    return found


def test_outside_of_any_trace_there_is_none_to_go_on_with() -> None:
    assert current_traceparent() is None
    with span("without an exporter"):
        assert current_traceparent() is None


def test_a_callers_trace_is_passed_on_also_where_nothing_is_exported() -> None:
    with continue_trace(CALLER), span("without an exporter"):
        assert current_traceparent() == CALLER
    assert current_traceparent() is None


@pytest.mark.parametrize("wrong", [None, "", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_what_is_no_trace_is_not_continued(wrong: str | None) -> None:
    with continue_trace(CALLER), continue_trace(wrong):
        assert current_traceparent() == CALLER


def test_spans_below_a_continued_trace_are_part_of_it(exporter: InMemorySpanExporter) -> None:
    with continue_trace(CALLER), span("work", {"fanfold.run": "run-1", "left.out": None}):
        told = current_traceparent()
    found = only(exporter)
    assert told is not None
    assert told.split("-")[1] == CALLER.split("-")[1]
    assert f"{found.parent.span_id:016x}" == CALLER.split("-")[2]
    assert dict(found.attributes) == {"fanfold.run": "run-1"}


def test_a_failure_is_named_and_its_text_left_out(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="a secret"), span("work"):
        raise ValueError("a secret")
    found = only(exporter)
    assert (found.status.status_code, found.attributes["error.type"]) == (StatusCode.ERROR, "ValueError")
    assert "a secret" not in found.to_json()


def test_a_cancellation_is_no_failure(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(asyncio.CancelledError), span("work"):
        raise asyncio.CancelledError
    assert only(exporter).status.status_code is StatusCode.UNSET


def test_without_an_address_nothing_is_set_up() -> None:
    configure_traces("worker", {})()
