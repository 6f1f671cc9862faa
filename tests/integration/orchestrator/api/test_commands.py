"""`fanfold api`, `fanfold keys` and `fanfold tenants`, as processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from orchestrator.settings import Settings

COMMAND = (sys.executable, "-m", "orchestrator.cli.main")
SECONDS = 60.0
"""For a command to end, or a server to begin."""
IDLE = 4.0
"""Seconds without news after which a run that is followed is looked at most seldom."""


def fanfold(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS)


def made(*arguments: str) -> dict[str, object]:
    done = fanfold(*arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def server(settings: Settings) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`fanfold api` on a free port: its address and its process."""
    variables = {**os.environ, "FANFOLD_LOG_FORMAT": "json"}
    process = subprocess.Popen([*COMMAND, "api", "--port", "0"], stderr=subprocess.PIPE, text=True, env=variables)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"the API is at (http://\S+?)[\"\s]", line):
            break
    else:
        pytest.fail("the API has ended")
    yield found[1], process
    process.kill()
    process.communicate()


def test_a_key_that_was_made_opens_the_api(server: tuple[str, subprocess.Popen[str]]) -> None:
    url, _ = server
    key = fanfold("keys", "create", "ci", "--tenant", "acme", "--expires-in", "90d")
    assert key.returncode == 0
    assert key.stdout.startswith("ffk_")
    assert key.stdout.strip() not in key.stderr
    headers = {"Authorization": f"Bearer {key.stdout.strip()}"}
    me = httpx.get(f"{url}/v1/me", headers=headers, trust_env=False).json()
    assert (me["tenant"], me["scopes"]) == ("acme", ["runs:read", "runs:write"])
    [listed] = json.loads(fanfold("keys", "ls", "-t", "acme", "-o", "json").stdout)
    assert listed["id"] == me["key_id"]
    assert fanfold("keys", "revoke", me["key_id"]).returncode == 2, "it is another tenant's"
    assert fanfold("keys", "revoke", me["key_id"], "-t", "acme").returncode == 0
    assert httpx.get(f"{url}/v1/me", headers=headers, trust_env=False).status_code == 401
    assert "revoked" in fanfold("keys", "ls", "-t", "acme").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to_and_answers_who_waits(
    server: tuple[str, subprocess.Popen[str]], number: signal.Signals
) -> None:
    url, process = server
    key = made("keys", "create", "ci")["key"]
    headers = {"Authorization": f"Bearer {key}"}
    run = httpx.post(f"{url}/v1/runs", json={"task": {"command": "true"}}, headers=headers, trust_env=False).json()
    with httpx.stream(
        "GET", f"{url}/v1/runs/{run['id']}/events", headers={**headers, "Accept": "text/event-stream"}, trust_env=False
    ) as answer:
        time.sleep(IDLE)
        process.send_signal(number)
        assert answer.status_code == 200
        list(answer.iter_lines())
    assert process.wait(timeout=SECONDS) == 0


def test_a_port_that_is_taken_is_told(server: tuple[str, subprocess.Popen[str]]) -> None:
    port = server[0].rpartition(":")[2]
    second = fanfold("api", "--port", port)
    assert (second.returncode, "cannot listen at" in second.stderr) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [("create", "x", "-s", "root"), ("create", ""), ("create", "x", "--expires-in", "soon"), ("create", "x", "-t", "NOT")],
)
def test_a_key_that_cannot_be_is_not_made(settings: Settings, arguments: tuple[str, ...]) -> None:
    before = fanfold("keys", "ls", "-o", "json").stdout
    assert fanfold("keys", *arguments).returncode == 2
    assert fanfold("keys", "ls", "-o", "json").stdout == before


def test_limits_of_a_tenant_are_set_and_listed(settings: Settings) -> None:
    assert fanfold("tenants", "set", "limited", "--max-running", "3", "--max-cost", "1.5").returncode == 0
    listed = json.loads(fanfold("tenants", "ls", "-o", "json").stdout)
    limits = next(one for one in listed if one["id"] == "limited")
    assert (limits["max_running"], limits["max_cost_micros"], limits["max_queued"]) == (3, 1_500_000, None)
    assert "limited" in fanfold("tenants", "ls").stdout
    assert fanfold("tenants", "set", "Not A Name").returncode == 2
