"""`fanfold sandboxes`, on this machine and over the API alike."""

from __future__ import annotations

import json

from orchestrator.service import Service
from sandboxes.providers.base import SandboxHandle
from tests.integration.orchestrator.api.conftest import Fanfold


def test_sandboxes_are_listed(fanfold: Fanfold, running: SandboxHandle) -> None:
    (told,) = json.loads(fanfold("sandboxes", "ls", "-o", "json").stdout)["sandboxes"]
    assert (told["id"], told["provider"], told["state"], told["attempt"]) == (running.id, "local", "owned", 1)
    header, line = fanfold("sandboxes", "ls").stdout.splitlines()
    assert header.split()[:2] == ["SANDBOX", "PROVIDER"]
    assert line.startswith(running.id)


def test_no_sandboxes_are_none(fanfold: Fanfold) -> None:
    assert fanfold("sandboxes", "ls").stdout == "no sandboxes\n"


def test_a_command_ends_as_it_ends_in_the_sandbox(fanfold: Fanfold, running: SandboxHandle) -> None:
    done = fanfold("sandboxes", "exec", running.id, "echo $KEY; echo wrong >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "***\n", "wrong\n")
    assert fanfold("sandboxes", "exec", running.id, "--", "printf", "%s", "a  b").stdout == "a  b"


def test_a_command_that_is_out_of_time_is_told(fanfold: Fanfold, running: SandboxHandle) -> None:
    done = fanfold("sandboxes", "exec", "--timeout", "1s", running.id, "sleep 1000")
    assert done.returncode == 124
    assert "out of time" in done.stderr


def test_a_sandbox_is_kept_and_ended(fanfold: Fanfold, running: SandboxHandle, service: Service) -> None:
    told = fanfold("sandboxes", "keep", running.id, "--for", "30m").stdout
    assert told.startswith(f"{running.id} is kept until ")
    assert "its lifetime ends at" in told
    assert service.sandboxes.get(running.id).kept_until
    refused = fanfold("sandboxes", "rm", running.id)
    assert refused.returncode == 2
    assert "cancel the run" in refused.stderr
    assert fanfold("sandboxes", "rm", running.id, "--force").stdout == f"{running.id} ended\n"
    assert fanfold("sandboxes", "keep", running.id).returncode == 2


def test_what_cannot_be_is_refused(fanfold: Fanfold, running: SandboxHandle) -> None:
    too_long = fanfold("sandboxes", "keep", running.id, "--for", "25h")
    assert too_long.returncode == 2
    unknown = fanfold("sandboxes", "exec", "sbx-0000000000000000", "true")
    assert unknown.returncode == 2
    assert "there is no sandbox" in unknown.stderr
