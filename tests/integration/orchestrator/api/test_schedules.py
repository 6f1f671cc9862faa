"""Schedules over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.integration.orchestrator.api.conftest import Api

RUN = {"task": {"command": "true", "name": "nightly build"}, "labels": {"team": "a"}, "priority": 3}


def body(**changes: Any) -> dict[str, Any]:
    return {"name": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "run": RUN, **changes}


@pytest.fixture
def made(client: httpx.Client) -> dict[str, Any]:
    answer = client.post("/v1/schedules", json=body())
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/v1/schedules/{found['id']}"
    return found


def test_a_schedule_tells_when_it_is_due(client: httpx.Client, made: dict[str, Any]) -> None:
    due = datetime.fromisoformat(made["next_at"])
    assert due > datetime.now(UTC)
    assert (due.minute, due.hour in (0, 1)) == (30, True)
    assert (made["overlap"], made["enabled"], made["last_at"], made["last_run_id"]) == ("skip", True, None, None)
    assert made["run"]["task"]["command"] == "true"
    assert made["run"]["labels"] == {"team": "a"}
    assert client.get(f"/v1/schedules/{made['id']}").json() == made


def test_schedules_are_listed_in_pages(client: httpx.Client) -> None:
    ids = [client.post("/v1/schedules", json=body(name=f"n{number}")).json()["id"] for number in range(3)]
    first = client.get("/v1/schedules", params={"limit": 2}).json()
    assert [one["id"] for one in first["items"]] == ids[:0:-1]
    rest = client.get("/v1/schedules", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert rest["items"][0]["id"] == ids[0]


def test_a_change_moves_the_next_time(client: httpx.Client, made: dict[str, Any]) -> None:
    path = f"/v1/schedules/{made['id']}"
    changed = client.patch(path, json={"cron": "15 12 * * *", "timezone": "UTC", "overlap": "allow"}).json()
    assert (changed["cron"], changed["overlap"], changed["name"], changed["run"]) == (
        "15 12 * * *", "allow", "nightly", made["run"]
    )  # fmt: skip
    assert datetime.fromisoformat(changed["next_at"]).strftime("%H:%M") == "12:15"
    assert client.patch(path, json={"enabled": False}).json()["next_at"] is None
    assert client.patch(path, json={"enabled": True}).json()["next_at"] == changed["next_at"]
    assert client.patch(path, json={}).json()["next_at"] == changed["next_at"]


def test_a_schedule_is_deleted(client: httpx.Client, made: dict[str, Any]) -> None:
    path = f"/v1/schedules/{made['id']}"
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.delete(path).status_code == 404


def test_a_trigger_submits_its_run_now_and_moves_nothing(client: httpx.Client, made: dict[str, Any]) -> None:
    answer = client.post(f"/v1/schedules/{made['id']}/trigger")
    assert answer.status_code == 201, answer.text
    run = client.get(answer.headers["Location"]).json()
    assert (run["id"], run["name"], run["labels"], run["priority"]) == (answer.json()["id"], "nightly build", {"team": "a"}, 3)
    after = client.get(f"/v1/schedules/{made['id']}").json()
    assert (after["last_run_id"], after["next_at"], after["last_error"]) == (run["id"], made["next_at"], None)
    assert after["last_at"] is not None
    second = client.post(f"/v1/schedules/{made['id']}/trigger").json()
    assert second["id"] != run["id"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cron": "* * * *"}, "cron: "),
        ({"cron": "0 0 30 2 *"}, "cron: "),
        ({"cron": "*/5 * * * * *"}, "cron: "),
        ({"timezone": "Mars/Base"}, "timezone: "),
        ({"name": "a\nb"}, "name"),
        ({"overlap": "queue"}, "overlap"),
        ({"colour": "red"}, "colour"),
        ({"run": {"task": {}}}, "command"),
        ({"run": {**RUN, "uploads": {"inputs": "upl-000000000000"}}}, "run.uploads: "),
        ({"run": {**RUN, "secrets": {"TOKEN": "s3cret-value"}}}, "FANFOLD_ALLOWED_SECRETS"),
        ({"run": {"task": {"command": "true", "secrets": {"T": "${TOKEN}"}}}}, "FANFOLD_ALLOWED_SECRETS"),
        ({"run": {"task": {"command": "true", "inputs": {"path": "."}}}}, "task.inputs.path"),
        ({"run": {**RUN, "thread_id": "thr-000000000000", "multitask_strategy": "reject"}}, "multitask_strategy"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(client: httpx.Client, changes: dict[str, Any], told: str) -> None:
    answer = client.post("/v1/schedules", json=body(**changes))
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert told in answer.text
    assert "s3cret-value" not in answer.text


@pytest.mark.parametrize("change", [{"cron": "x"}, {"timezone": "x"}, {"run": {**RUN, "secrets": {"A": "b"}}}, {"id": "sch-1"}])
def test_a_change_that_makes_no_sense_changes_nothing(
    client: httpx.Client, made: dict[str, Any], change: dict[str, Any]
) -> None:
    path = f"/v1/schedules/{made['id']}"
    assert client.patch(path, json={"name": "other", **change}).status_code == 422
    assert client.get(path).json() == made


def test_another_tenants_schedule_is_not_there(api: Api, made: dict[str, Any]) -> None:
    other = api.of("other")
    path = f"/v1/schedules/{made['id']}"
    for answer in (
        other.get(path), other.patch(path, json={"enabled": False}), other.delete(path), other.post(f"{path}/trigger")
    ):  # fmt: skip
        assert answer.status_code == 404
    assert other.get("/v1/schedules").json()["items"] == []


def test_reading_needs_one_scope_and_writing_another(api: Api, made: dict[str, Any]) -> None:
    reader, path = api.of("default", "runs:read"), f"/v1/schedules/{made['id']}"
    assert reader.get(path).status_code == 200
    for answer in (reader.post("/v1/schedules", json=body()), reader.delete(path), reader.post(f"{path}/trigger")):
        assert answer.status_code == 403
