"""Webhooks over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.orchestrator.api.conftest import Api

URL = "https://hooks.example.com/fanfold"


@pytest.fixture
def made(client: httpx.Client) -> Iterator[dict[str, Any]]:
    answer = client.post("/v1/webhooks", json={"url": URL})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/v1/webhooks/{found['id']}"
    yield found
    client.delete(f"/v1/webhooks/{found['id']}")


def test_the_secret_is_shown_once(client: httpx.Client, made: dict[str, Any]) -> None:
    assert made["secret"].startswith("whsec_")
    assert (made["events"], made["enabled"]) == (["run.finished", "run.interrupted"], True)
    shown = client.get(f"/v1/webhooks/{made['id']}").json()
    assert shown == {name: value for name, value in made.items() if name != "secret"}
    assert shown in client.get("/v1/webhooks").json()["items"]


def test_a_secret_may_be_brought_along(client: httpx.Client) -> None:
    answer = client.post("/v1/webhooks", json={"url": URL, "secret": "a-secret-of-our-own"})
    assert answer.json()["secret"] == "a-secret-of-our-own"
    assert client.delete(f"/v1/webhooks/{answer.json()['id']}").status_code == 204


def test_a_webhook_is_changed_and_deleted(client: httpx.Client, made: dict[str, Any]) -> None:
    path = f"/v1/webhooks/{made['id']}"
    changed = client.patch(path, json={"events": ["run.interrupted"], "enabled": False}).json()
    assert (changed["url"], changed["events"], changed["enabled"]) == (URL, ["run.interrupted"], False)
    assert client.patch(path, json={}).json() == changed
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_a_test_is_noted_for_the_controller(client: httpx.Client, made: dict[str, Any]) -> None:
    answer = client.post(f"/v1/webhooks/{made['id']}/test")
    assert answer.status_code == 202, answer.text
    noted = answer.json()
    assert (noted["event"], noted["run_id"], noted["status"], noted["attempts"]) == ("webhook.test", None, "waiting", 0)
    listed = client.get(f"/v1/webhooks/{made['id']}/deliveries").json()
    assert (listed["items"], listed["next_cursor"]) == ([noted], None)


def test_the_end_of_a_run_is_among_the_deliveries(client: httpx.Client, made: dict[str, Any]) -> None:
    run = client.post("/v1/runs", json={"task": {"command": "true"}}).json()
    client.post(f"/v1/runs/{run['id']}/cancel")
    (delivery,) = client.get(f"/v1/webhooks/{made['id']}/deliveries").json()["items"]
    assert (delivery["run_id"], delivery["event"]) == (run["id"], "run.finished")


def test_a_run_is_told_as_it_is_shown(client: httpx.Client, api: Api, made: dict[str, Any]) -> None:
    from orchestrator.runs.outbox import run_as_told

    run = client.post("/v1/runs", json={"task": {"command": "true"}, "labels": {"a": "b"}}).json()
    client.post(f"/v1/runs/{run['id']}/cancel")
    assert run_as_told(api.service.get(run["id"])) == client.get(f"/v1/runs/{run['id']}").json()


@pytest.mark.parametrize(
    "body",
    [
        {}, {"url": "http://hooks.example.com/"}, {"url": "https://localhost/"}, {"url": "https://10.0.0.1/"}, {"url": "x"},
        {"url": "https://[::1]/"}, {"url": URL, "events": []}, {"url": URL, "events": ["run.begun"]},
        {"url": URL, "secret": "x"}, {"url": URL, "secret": "with spaces in it, long"}, {"url": URL, "colour": "red"},
        {"url": URL + "x" * 2000},
    ],
)  # fmt: skip
def test_what_cannot_be_a_webhook_is_refused(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post("/v1/webhooks", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_address_cannot_be_changed_into_a_private_one(client: httpx.Client, made: dict[str, Any]) -> None:
    assert client.patch(f"/v1/webhooks/{made['id']}", json={"url": "https://192.168.0.1/"}).status_code == 422


def test_another_tenants_webhook_is_not_there(api: Api, made: dict[str, Any]) -> None:
    other, path = api.of("other"), f"/v1/webhooks/{made['id']}"
    for answer in (
        other.get(path), other.patch(path, json={"enabled": False}), other.delete(path), other.get(f"{path}/deliveries"),
        other.post(f"{path}/test"),
    ):  # fmt: skip
        assert answer.status_code == 404
    assert other.get("/v1/webhooks").json()["items"] == []


def test_reading_needs_one_scope_and_writing_another(api: Api, made: dict[str, Any]) -> None:
    reader, path = api.of("default", "runs:read"), f"/v1/webhooks/{made['id']}"
    assert reader.get(f"{path}/deliveries").status_code == 200
    for answer in (reader.post("/v1/webhooks", json={"url": URL}), reader.delete(path), reader.post(f"{path}/test")):
        assert answer.status_code == 403
