"""A real server over a real home, clients with keys, the command line, and the sandbox of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.runs.labels import sandbox_labels
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.store import Store, new_run_id
from orchestrator.service import Service
from orchestrator.settings import Settings
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.providers.registry import get_provider
from tests.served import Api, serving

Fanfold = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def api(service: Service) -> Iterator[Api]:
    """A server over the module's home, in which no worker runs unless `worker` is asked for."""
    with serving(service) as served:
        yield served


@pytest.fixture(scope="module")
def client(api: Api) -> httpx.Client:
    """A client with the admin's key."""
    return api.client()


@pytest.fixture(scope="module")
def worker(service: Service) -> None:
    """Have a worker in the module's home."""
    service.ensure_worker()


@pytest.fixture
def other_settings(new_home: Callable[..., Any]) -> Iterator[Callable[..., Settings]]:
    """Makes settings of a home of its own, from `NAME="value"` for `FANFOLD_NAME`."""
    with ExitStack() as homes:
        yield lambda **variables: homes.enter_context(new_home(**variables))


@pytest.fixture(params=["here", "over the API"])
def fanfold(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Fanfold:
    """Runs `fanfold`, on the record of this machine and over the API."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FANFOLD_")}
    if request.param == "here":
        environ |= {"FANFOLD_HOME": str(settings.home)}
    else:
        api: Api = request.getfixturevalue("api")
        environ |= {"FANFOLD_URL": api.url, "FANFOLD_API_KEY": api.key, "XDG_STATE_HOME": str(tmp_path / "none")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator.cli.main", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)

    return run


@pytest.fixture
def running(service: Service, settings: Settings) -> Iterator[SandboxHandle]:
    """The sandbox of a run that goes on."""
    store, run_id = Store(service._of.engine), new_run_id()
    store.add(NewRun(run_id, "name", {"secrets": {"KEY": "${MINE}"}}))
    lease = store.claim(run_id, "w")
    assert lease
    provider = get_provider("local", home=settings.home)
    spec = SandboxSpec(env={"KEY": "hunter2-hunter2"})
    handle = portal.run(provider.create(spec, sandbox_labels(store.installation(), run_id, 1)))
    store.set_sandbox(lease, handle.to_json())
    yield handle
    portal.run(provider.destroy(handle))
    store.finish(lease, RunStatus.SUCCESS)
