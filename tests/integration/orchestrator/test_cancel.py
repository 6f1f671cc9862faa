"""Cancelling reaches a run wherever it is: in the queue, in a command, or in a call of its model that does not answer."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.runs.models import RunStatus
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from sandboxes.portal import portal
from sandboxes.providers.registry import get_provider
from tests.integration.orchestrator.conftest import processes

GENEROUS = 30.0
"""Seconds; the machine may be busy with other tests. What it took is printed."""


class SilentModel:
    """A model's API that takes a request and never answers, and knows when the caller hangs up."""

    def __init__(self) -> None:
        self.asked, self.hung_up = threading.Event(), threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            connection, _ = self._server.accept()
        except OSError:
            return
        with connection:
            request = b""
            while data := connection.recv(65536):
                request += data
                if b"chat/completions" in request or b"/responses" in request:
                    self.asked.set()
            self.hung_up.set()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def silent() -> Iterator[SilentModel]:
    model = SilentModel()
    yield model
    model.close()


def sandboxes(settings: Settings) -> list[str]:
    return [one.id for one in portal.run(get_provider("local", home=settings.home).find())]


def cancelled(service: Service, run_id: str) -> float:
    """Cancel a run; the seconds until it had ended."""
    began = time.monotonic()
    service.cancel(run_id)
    for _ in service.follow(run_id):
        pass
    took = time.monotonic() - began
    assert service.get(run_id).status is RunStatus.CANCELLED
    assert took < GENEROUS
    return took


def test_a_call_of_a_model_that_hangs_is_closed(new_home, silent: SilentModel, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", silent.url)
    spec = RunSpec.model_validate({"agent": {"prompt": "go", "model": "openai:some-model"}})
    with new_home() as settings, Service(settings) as service:
        run_id = service.submit(spec, base_dir=tmp_path, environ={"OPENAI_API_KEY": "sk-nothing"}).id
        service.ensure_worker()
        assert silent.asked.wait(GENEROUS)
        took = cancelled(service, run_id)
        assert silent.hung_up.wait(GENEROUS)
        print(f"\na run in a call of its model had ended {took:.2f} s after it was cancelled")
        assert sandboxes(settings) == []


def test_a_command_and_its_children_are_killed(new_home, until, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        marker = f"9{os.getpid()}.25"
        run_id = service.submit(RunSpec(command=f"sleep {marker} & echo begun; sleep {marker}"), base_dir=tmp_path).id
        service.ensure_worker()
        next(event for event in service.follow(run_id) if event.type == "command.output")
        until(lambda: processes(marker) == 2, "both run")
        took = cancelled(service, run_id)
        print(f"\na run in a command had ended {took:.2f} s after it was cancelled")
        until(lambda: processes(marker) == 0, "its processes are gone")
        assert sandboxes(settings) == []


def test_a_run_that_waits_in_the_queue_is_cancelled_without_a_worker(new_home, tmp_path: Path) -> None:
    with new_home() as settings, Service(settings) as service:
        run_id = service.submit(RunSpec(command="true"), base_dir=tmp_path).id
        assert service.cancel(run_id).status is RunStatus.CANCELLED
