"""Prompt caching: what would be sent to Anthropic is marked, and nobody else's request changes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

from orchestrator.agent.harness.caching import prompt_caching

anthropic = pytest.importorskip("langchain_anthropic")

MODEL = "claude-of-a-test"
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def search(query: str) -> str:
    """Search for something."""
    return query


class Wire:
    """Anthropic's end of the wire, on this machine. `sent` is what came."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        sent = self.sent

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                body = json.dumps(ANSWER).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def model(self) -> Any:
        address = f"http://127.0.0.1:{self.server.server_port}"
        return anthropic.ChatAnthropic(model=MODEL, api_key="none", base_url=address, max_retries=0)


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    serving = threading.Thread(target=wire.server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield wire
    wire.server.shutdown()
    wire.server.server_close()
    serving.join()


def assert_marked(sent: dict[str, Any]) -> None:
    assert sent["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert sent["tools"][-1]["cache_control"]["type"] == "ephemeral"
    assert sent["cache_control"]["type"] == "ephemeral"


def test_what_is_sent_to_anthropic_is_marked_for_the_cache(wire: Wire) -> None:
    create_agent(wire.model(), [search], system_prompt="Be terse.", middleware=prompt_caching()).invoke({"messages": "hi"})
    assert_marked(wire.sent[0])


async def test_it_is_marked_in_the_async_form_too(wire: Wire) -> None:
    agent = create_agent(wire.model(), [search], system_prompt="Be terse.", middleware=prompt_caching())
    await agent.ainvoke({"messages": "hi"})
    assert_marked(wire.sent[0])


def test_without_the_middleware_nothing_is_marked(wire: Wire) -> None:
    create_agent(wire.model(), [search], system_prompt="Be terse.").invoke({"messages": "hi"})
    assert "cache_control" not in json.dumps(wire.sent[0])


class Watched(FakeMessagesListChatModel):
    """Keeps what it was asked."""

    asked: list[Any] = []

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        self.asked.append((tools, options))
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
        self.asked.append((messages, options))
        return super()._generate(messages, stop, run_manager, **options)


@pytest.mark.parametrize("middleware", [prompt_caching(), []], ids=["with", "without"])
def test_another_model_is_asked_without_marks_or_warnings(middleware: list[Any]) -> None:
    model = Watched(responses=[AIMessage("hello")])
    model.asked.clear()
    create_agent(model, [search], system_prompt="Be terse.", middleware=middleware).invoke({"messages": "hi"})
    (tools, bound), (messages, options) = model.asked
    assert (tools[0].extras, bound, options) == (None, {"tool_choice": None}, {"stop": None} if "stop" in options else {})
    assert messages[0].content == "Be terse."


def test_the_package_is_loaded_by_its_model_only() -> None:
    program = """
import sys
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from orchestrator.agent.harness.caching import prompt_caching
create_agent(FakeListChatModel(responses=["hello"]), middleware=prompt_caching()).invoke({"messages": "hi"})
assert "langchain_anthropic" not in sys.modules
assert "anthropic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_without_the_package_there_is_nothing_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.agent.harness.caching.find_spec", lambda name: None)
    assert prompt_caching() == []
