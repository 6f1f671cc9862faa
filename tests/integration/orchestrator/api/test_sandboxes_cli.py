"""`fanfold sandboxes`, on this machine and over the API alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.runs.labels import sandbox_labels
from orchestrator.runs.models import NewRun, RunStatus
from orchestrator.runs.store import Store, new_run_id
from orchestrator.service import Service
from orchestrator.settings import Settings
from sandboxes.portal import portal
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.providers.registry import get_provider
from tests.served import Api

Fanfold = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["here", "over the API"])
def fanfold(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Fanfold:
    """Runs `fanfold sandboxes`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FANFOLD_")}
    if request.param == "here":
        environ |= {"FANFOLD_HOME": str(settings.home)}
    else:
        api: Api = request.getfixturevalue("api")
        environ |= {"FANFOLD_URL": api.url, "FANFOLD_API_KEY": api.key, "XDG_STATE_HOME": str(tmp_path / "none")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "orchestrator.cli.main", "sandboxes", *arguments]
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


def test_sandboxes_are_listed(fanfold: Fanfold, running: SandboxHandle) -> None:
    (told,) = json.loads(fanfold("ls", "-o", "json").stdout)["sandboxes"]
    assert (told["id"], told["provider"], told["state"], told["attempt"]) == (running.id, "local", "owned", 1)
    header, line = fanfold("ls").stdout.splitlines()
    assert header.split()[:2] == ["SANDBOX", "PROVIDER"]
    assert line.startswith(running.id)


def test_no_sandboxes_are_none(fanfold: Fanfold) -> None:
    assert fanfold("ls").stdout == "no sandboxes\n"


def test_a_command_ends_as_it_ends_in_the_sandbox(fanfold: Fanfold, running: SandboxHandle) -> None:
    done = fanfold("exec", running.id, "echo $KEY; echo wrong >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "***\n", "wrong\n")
    assert fanfold("exec", running.id, "--", "printf", "%s", "a  b").stdout == "a  b"


def test_a_command_that_is_out_of_time_is_told(fanfold: Fanfold, running: SandboxHandle) -> None:
    done = fanfold("exec", "--timeout", "1s", running.id, "sleep 1000")
    assert done.returncode == 124
    assert "out of time" in done.stderr


def test_a_sandbox_is_kept_and_ended(fanfold: Fanfold, running: SandboxHandle, service: Service) -> None:
    told = fanfold("keep", running.id, "--for", "30m").stdout
    assert told.startswith(f"{running.id} is kept until ")
    assert "its lifetime ends at" in told
    assert service.sandboxes.get(running.id).kept_until
    refused = fanfold("rm", running.id)
    assert refused.returncode == 2
    assert "cancel the run" in refused.stderr
    assert fanfold("rm", running.id, "--force").stdout == f"{running.id} ended\n"
    assert fanfold("keep", running.id).returncode == 2


def test_what_cannot_be_is_refused(fanfold: Fanfold, running: SandboxHandle) -> None:
    too_long = fanfold("keep", running.id, "--for", "25h")
    assert too_long.returncode == 2
    unknown = fanfold("exec", "sbx-0000000000000000", "true")
    assert unknown.returncode == 2
    assert "there is no sandbox" in unknown.stderr
