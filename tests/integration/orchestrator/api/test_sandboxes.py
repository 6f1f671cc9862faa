"""Sandboxes over the API: what it tells, whom it lets in, and how it refuses."""

from __future__ import annotations

import httpx
import pytest

from sandboxes.providers.base import SandboxHandle
from tests.served import Api

UNKNOWN = "/v1/sandboxes/sbx-0000000000000000"


def at(handle: SandboxHandle, *more: str) -> str:
    return "/".join(("/v1/sandboxes", handle.id, *more))


def test_the_sandboxes_of_runs_are_listed(client: httpx.Client, running: SandboxHandle) -> None:
    answer = client.get("/v1/sandboxes").json()
    (told,) = answer["items"]
    assert (told["id"], told["provider"], told["state"], told["attempt"]) == (running.id, "local", "owned", 1)
    assert told["kept_until"] is None
    assert answer["next_cursor"] is None
    assert client.get(at(running)).json() == told


def test_a_sandbox_is_kept_and_ended(client: httpx.Client, running: SandboxHandle) -> None:
    assert client.post(at(running, "keep"), json={"seconds": 60}).json()["kept_until"]
    refused = client.delete(at(running))
    assert refused.status_code == 409
    assert "cancel the run" in refused.json()["detail"]
    assert client.delete(at(running), params={"force": "true"}).status_code == 204
    assert client.get(at(running)).status_code == 404


def test_a_command_is_run_without_its_secrets(client: httpx.Client, running: SandboxHandle) -> None:
    answer = client.post(at(running, "exec"), json={"command": "echo $KEY; exit 7", "timeout": 20})
    assert answer.json() == {"exit_code": 7, "stdout": "***\n", "stderr": "", "timed_out": False, "truncated": False}


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("exec", {"command": ""}),
        ("exec", {"command": "a\0b"}),
        ("exec", {"command": "  "}),
        ("exec", {"command": "true", "timeout": 0}),
        ("exec", {"command": "true", "timeout": 601}),
        ("exec", {"command": "true", "cwd": "/"}),
        ("keep", {"seconds": 0}),
        ("keep", {"seconds": 86401}),
        ("keep", {}),
    ],
)
def test_what_cannot_be_is_refused(client: httpx.Client, running: SandboxHandle, action: str, body: object) -> None:
    answer = client.post(at(running, action), json=body)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_is_not_there_is_not_found(client: httpx.Client) -> None:
    answers = [
        client.get(UNKNOWN),
        client.delete(UNKNOWN),
        client.post(UNKNOWN + "/keep", json={"seconds": 60}),
        client.post(UNKNOWN + "/exec", json={"command": "true"}),
    ]
    assert [answer.status_code for answer in answers] == [404] * 4


def test_another_tenant_reaches_nothing(api: Api, client: httpx.Client, running: SandboxHandle) -> None:
    other = api.of("acme")
    assert other.get("/v1/sandboxes").json()["items"] == []
    answers = [
        other.get(at(running)),
        other.delete(at(running), params={"force": "true"}),
        other.post(at(running, "keep"), json={"seconds": 60}),
        other.post(at(running, "exec"), json={"command": "true"}),
    ]
    assert [answer.status_code for answer in answers] == [404] * 4
    assert client.get(at(running)).json()["kept_until"] is None


@pytest.mark.parametrize(
    ("scope", "opened"),
    [("runs:read", {"get"}), ("runs:write", {"keep"}), ("sandboxes:exec", {"exec"}), ("admin", {"get", "keep", "exec"})],
)
def test_each_action_needs_its_scope(api: Api, running: SandboxHandle, scope: str, opened: set[str]) -> None:
    client = api.client(api.new_key(scope))
    answers = {
        "get": client.get(at(running)),
        "keep": client.post(at(running, "keep"), json={"seconds": 60}),
        "exec": client.post(at(running, "exec"), json={"command": "true"}),
    }
    assert {name for name, answer in answers.items() if answer.status_code == 200} == opened
    assert {answer.status_code for name, answer in answers.items() if name not in opened} <= {403}
