"""The spans of an agent, as an exporter gets them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from langchain_core.tools import tool
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from orchestrator.agent import tracing
from orchestrator.agent.harness import create_deep_agent
from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel
from orchestrator.agent.tracing import TracedModels, TracedTools, agent_span
from orchestrator.telemetry import traces

SCRIPT = b"""
turns:
  - tool_calls: [{id: a, name: first, args: {}}, {id: b, name: fails, args: {}}]
    usage: {input_tokens: 10, output_tokens: 2}
  - {text: done}
"""


@tool
async def first() -> str:
    """Work."""
    with traces.span("inside"):
        return "not-to-be-told"


@tool
async def fails() -> str:
    """Fail."""
    raise ValueError("not-to-be-told")


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Takes the spans of this test alone: the process's own provider can be set once and never again."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    for module in (traces, tracing):
        monkeypatch.setattr(module, "tracer", provider.get_tracer("test"))
    yield found
    provider.shutdown()


async def spans_of(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """The spans of an agent that calls both tools, by name; of two with the same name the last."""
    model = ScriptedChatModel(script=load_script(SCRIPT, "s"), file="s")
    agent = create_deep_agent(model, [first, fails], around=[TracedTools()])
    with agent_span("main", "scripted:s"):
        await agent.ainvoke({"messages": [("user", "go")]}, {"callbacks": [TracedModels()]})
    return {span.name: span for span in exporter.get_finished_spans()}


def parent(span: ReadableSpan, spans: dict[str, ReadableSpan]) -> str:
    names = {one.context.span_id: name for name, one in spans.items()}
    return names[span.parent.span_id] if span.parent else ""


async def test_models_and_tools_have_spans_below_their_agent(exporter: InMemorySpanExporter) -> None:
    spans = await spans_of(exporter)
    chat = next(name for name in spans if name.startswith("chat "))
    assert {name: parent(span, spans) for name, span in spans.items()} == {
        "invoke_agent main": "",
        chat: "invoke_agent main",
        "execute_tool first": "invoke_agent main",
        "execute_tool fails": "invoke_agent main",
        "inside": "execute_tool first",
    }
    every = [span for span in exporter.get_finished_spans() if span.name == chat]
    assert [span.attributes.get("gen_ai.usage.input_tokens") for span in every] == [10, None]
    assert spans["execute_tool first"].attributes["gen_ai.operation.name"] == "execute_tool"


async def test_only_what_failed_is_a_failure_and_nothing_that_was_said_is_in_a_span(exporter: InMemorySpanExporter) -> None:
    spans = await spans_of(exporter)
    assert [name for name, span in spans.items() if span.status.status_code is StatusCode.ERROR] == ["execute_tool fails"]
    assert "not-to-be-told" not in "".join(span.to_json() for span in exporter.get_finished_spans())


def test_a_call_of_a_model_that_fails_ends_its_span(exporter: InMemorySpanExporter) -> None:
    handler, run_id = TracedModels(), uuid4()
    handler.on_chat_model_start({}, [], run_id=run_id, metadata={"ls_provider": "openai", "ls_model_name": "gpt"})
    handler.on_llm_error(TimeoutError("not-to-be-told"), run_id=run_id)
    handler.on_llm_error(TimeoutError("again"), run_id=run_id)
    (span,) = exporter.get_finished_spans()
    assert span.name == "chat gpt"
    assert (span.attributes["gen_ai.provider.name"], span.attributes["error.type"]) == ("openai", "TimeoutError")
