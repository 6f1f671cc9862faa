"""All of Fanfold in one process, with nothing beside it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orchestrator.settings import Settings

SECONDS = 60


@pytest.fixture
def up(new_home, until, tmp_path: Path) -> Iterator[tuple[Settings, subprocess.Popen[bytes], str]]:
    """A home, the process, and the address of its API."""
    with new_home() as settings, (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "orchestrator.cli.main", "up", "--port", "0", "--concurrency", "2"]
        process = subprocess.Popen(command, stdout=log, stderr=log)

        def address() -> str | None:
            found = re.search(r"http://127\.0\.0\.1:\d+", (tmp_path / "log").read_text())
            return found[0] if found else None

        until(lambda: address() or process.poll() is not None, "the API is there")
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield settings, process, str(address())
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_one_process_takes_a_run_executes_it_and_leaves_nothing(up, is_running) -> None:
    settings, process, url = up
    key_file = settings.home / "api.key"
    assert key_file.stat().st_mode & 0o777 == 0o600
    headers = {"Authorization": f"Bearer {key_file.read_text()}"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS, trust_env=False) as client:
        made = client.post("/v1/runs", json={"task": {"command": "echo hello"}})
        assert made.status_code == 201, made.text
        ended = client.get(f"/v1/runs/{made.json()['id']}/join").json()
        assert ended["error"] is None, ended["error"]["message"]
        assert ended["status"] == "success"
        assert [worker["pid"] for worker in client.get("/v1/workers").json()["items"]] == [process.pid]
        assert client.get("/readyz").status_code == 200
    with httpx.Client(base_url=url, trust_env=False) as stranger:
        assert stranger.get("/v1/runs").status_code == 401


def test_it_ends_with_its_broker_and_leaves_its_run_to_the_next_one(up, until) -> None:
    settings, process, url = up
    headers = {"Authorization": f"Bearer {(settings.home / 'api.key').read_text()}"}
    with httpx.Client(base_url=url, headers=headers, timeout=SECONDS, trust_env=False) as client:
        run_id = client.post("/v1/runs", json={"task": {"command": "echo begun; sleep 600"}}).json()["id"]
        until(lambda: client.get(f"/v1/runs/{run_id}").json()["status"] == "running", "the run has begun")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0
    assert not (settings.home / "valkey" / "valkey.sock").exists()
