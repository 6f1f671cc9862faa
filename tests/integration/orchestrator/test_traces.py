"""One trace leads from a submission, or a request, to the calls into the sandbox, through a real queue and a real worker."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from orchestrator.service import Service
from tests.otlp import ReceivedSpan, Receiver, otlp_receiver

SCRIPT = """
turns:
  - tool_calls:
      - {id: a, name: execute, args: {command: "echo not-to-be-told"}}
      - {id: b, name: write_file, args: {file_path: notes.txt, content: "not-to-be-told"}}
    usage: {input_tokens: 1000, output_tokens: 100}
  - {text: done}
"""
TASK = """
name: traced
agent: {model: "scripted:script.yaml", prompt: "Do what is not-to-be-told."}
"""
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
"""A trace that a client of the API began."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with otlp_receiver() as opened:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", opened.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield opened


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "task.yaml").write_text(TASK)
    return tmp_path / "task.yaml"


def ancestors(span: ReceivedSpan, spans: list[ReceivedSpan]) -> list[str]:
    """The names of the spans above one, the nearest first."""
    by_id = {one.id: one for one in spans}
    found = []
    while span.parent in by_id:
        span = by_id[span.parent]
        found.append(span.name)
    return found


def test_one_trace_leads_from_the_command_line_to_the_sandbox(
    new_home, receiver: Receiver, task: Path, until: Callable[..., None]
) -> None:
    with new_home() as settings:
        command = [sys.executable, "-m", "orchestrator.cli.main", "run", str(task)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=task.parent)
        assert done.returncode == 0, done.stderr + settings.worker_log.read_text()
        until(lambda: receiver.named("run") and receiver.named("submit"), "the last spans have come")
        with Service(settings) as service:
            (run,) = service.list()
    spans = receiver.spans
    (submit,) = receiver.named("submit")
    assert {span.trace for span in spans} == {submit.trace}
    assert run.traceparent is not None
    assert run.traceparent.startswith(f"00-{submit.trace}-{submit.id}-")
    assert {(span.service, span.name) for span in spans} >= {
        ("fanfold-cli", "submit"),
        ("fanfold-worker", "run"),
        ("fanfold-worker", "invoke_agent main"),
        ("fanfold-worker", "execute_tool execute"),
        ("fanfold-worker", "execute_tool write_file"),
    }
    (tool,) = receiver.named("execute_tool write_file")
    assert ancestors(tool, spans) == ["invoke_agent main", "run", "submit"]
    assert tool.attributes["gen_ai.tool.call.id"] == "b"
    (put,) = receiver.named("sandbox put")
    assert ancestors(put, spans)[0] == "execute_tool write_file"
    first, second = receiver.named("chat ")
    assert ancestors(first, spans) == ancestors(second, spans) == ["invoke_agent main", "run", "submit"]
    assert first.attributes["gen_ai.usage.input_tokens"] == 1000
    (work,) = receiver.named("run")
    assert work.attributes["fanfold.run"] == run.id
    assert b"not-to-be-told" not in receiver.raw


def test_a_command_that_fails_in_the_sandbox_is_no_failure_of_the_trace(
    new_home, receiver: Receiver, task: Path, until: Callable[..., None]
) -> None:
    (task.parent / "script.yaml").write_text(SCRIPT.replace("echo", "false; exit 3;"))
    with new_home():
        command = [sys.executable, "-m", "orchestrator.cli.main", "run", str(task)]
        assert subprocess.run(command, capture_output=True, timeout=100, cwd=task.parent).returncode == 0
        until(lambda: receiver.named("run"), "the last span has come")
    assert not [span.name for span in receiver.spans if span.failed]


def test_a_trace_that_a_client_of_the_api_began_goes_on_in_the_api_and_the_worker(
    new_home, receiver: Receiver, tmp_path: Path, until: Callable[..., None]
) -> None:
    with new_home() as settings, Service(settings) as service, api_process(until) as url:
        headers = {"Authorization": f"Bearer {service.keys.create('test', ('admin',)).text}", "traceparent": CALLER}
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            answer = client.post("/v1/runs", json={"task": {"command": "echo hi"}})
            assert answer.status_code == 201, answer.text
            run_id = answer.json()["id"]
            assert client.get("/healthz").status_code == 200
        service.ensure_worker()
        list(service.follow(run_id))
        until(lambda: receiver.named("run") and receiver.named("POST"), "the last spans have come")
    _, trace, caller, _ = CALLER.split("-")
    (request,) = receiver.named("POST")
    assert (request.name, request.service) == ("POST /v1/runs", "fanfold-api")
    assert (request.trace, request.parent) == (trace, caller)
    assert request.attributes["http.response.status_code"] == 201
    (work,) = receiver.named("run")
    assert work.trace == trace
    assert ancestors(work, receiver.spans)[-1] == "POST /v1/runs"
    assert not receiver.named("GET")


@contextmanager
def api_process(until: Callable[..., None]) -> Iterator[str]:
    """The API as a process of its own; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([sys.executable, "-m", "orchestrator.cli.main", "api", "--port", str(port)])

    def answers() -> bool:
        assert process.poll() is None
        try:
            return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(answers, "the API answers")
        yield url
    finally:
        process.terminate()
        process.wait(30)
