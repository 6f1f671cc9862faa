"""Threads over HTTP. No worker runs here: runs of a thread wait."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from orchestrator.runs.threads import Multitask
from tests.served import Api

NONE = "thr-000000000000"


@pytest.fixture(scope="module")
def script(client: httpx.Client) -> str:
    """The id of an upload: a script that says one thing."""
    answer = client.post(
        "/v1/uploads", content=b"turns: [{text: Hello.}]", headers={"Content-Type": "application/octet-stream"}
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.fixture
def thread(client: httpx.Client) -> str:
    return str(client.post("/v1/threads").json()["id"])


@pytest.fixture
def say(client: httpx.Client, script: str):
    """Submit a run to a thread; what came of it."""

    def submit(thread: str, strategy: str | None = None, status: int = 201) -> dict[str, Any]:
        order = {"task": {"agent": {"prompt": "Say hello.", "model": "scripted:it"}}, "uploads": {"model": script}}
        more = {"multitask_strategy": strategy} if strategy else {}
        answer = client.post("/v1/runs", json={**order, "thread_id": thread, **more})
        assert answer.status_code == status, answer.text
        return dict(answer.json())

    return submit


def test_a_thread_is_made_described_listed_and_deleted(client: httpx.Client) -> None:
    answer = client.post("/v1/threads", json={"metadata": {"user": "Zoë", "n": [1, 2.5, None]}})
    made = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/v1/threads/{made['id']}")
    assert (made["metadata"], made["tenant"]) == ({"user": "Zoë", "n": [1, 2.5, None]}, "default")
    path = f"/v1/threads/{made['id']}"
    assert client.get(path).json() == made
    assert client.patch(path, json={"metadata": {"user": "Ada"}}).json() == {**made, "metadata": {"user": "Ada"}}
    assert client.get("/v1/threads", params={"limit": 1}).json()["items"] == [{**made, "metadata": {"user": "Ada"}}]
    assert client.get(f"{path}/messages").json() == {"items": []}
    deleted = client.delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert client.get(path).status_code == client.delete(path).status_code == client.get(f"{path}/messages").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"a": NaN}}',
        b'{"metadata": {"a": "\\ud800"}}',
        b'{"metadata": {"\\ud800": 1}}',
        b'{"metadata": 5}',
        b"[]",
    ],
    ids=["nan", "surrogate", "key", "number", "list"],
)
def test_metadata_that_not_everybody_can_read_are_refused(client: httpx.Client, thread: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/threads", content=body, headers=headers).status_code == 422
    assert client.patch(f"/v1/threads/{thread}", content=body, headers=headers).status_code == 422


def test_metadata_are_kept_as_they_are(client: httpx.Client) -> None:
    odd = {"nul": "\0", "large": 10**30, "": "😀", "deep": [[[{}]]]}
    made = client.post("/v1/threads", json={"metadata": odd}).json()
    assert client.get(f"/v1/threads/{made['id']}").json()["metadata"] == odd
    large = client.post("/v1/threads", json={"metadata": {"a": "x" * 20_000}})
    assert (large.status_code, "at most 16,384 are kept" in large.text) == (422, True)


def test_pages_of_threads_have_each_once(api: Api) -> None:
    client = api.of("paged")
    made = [client.post("/v1/threads").json()["id"] for _ in range(5)]
    seen, query = [], {"limit": "2"}
    while True:
        page = client.get("/v1/threads", params=query).json()
        seen += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query = {"limit": "2", "cursor": page["next_cursor"]}
    assert seen == made[::-1]


def test_another_tenants_thread_is_not_there(client: httpx.Client, api: Api, thread: str, script: str) -> None:
    other = api.of("another")
    path = f"/v1/threads/{thread}"
    answers = [other.get(path), other.delete(path), other.get(f"{path}/messages"), other.patch(path, json={"metadata": {}})]
    task = {"agent": {"prompt": "p", "model": "replay:it"}}
    upload = other.post("/v1/uploads", content=b"{}", headers={"Content-Type": "application/octet-stream"}).json()["id"]
    answers.append(other.post("/v1/runs", json={"task": task, "uploads": {"model": upload}, "thread_id": thread}))
    assert [answer.status_code for answer in answers] == [404] * 5
    assert thread not in other.get("/v1/threads").text
    assert client.get(path).json()["metadata"] == {}


def test_scopes_are_asked_for(api: Api, thread: str) -> None:
    reader, writer = api.client(api.new_key("runs:read")), api.client(api.new_key("runs:write"))
    path = f"/v1/threads/{thread}"
    refused = [reader.post("/v1/threads"), reader.delete(path), reader.patch(path, json={"metadata": {}})]
    refused += [writer.get(path), writer.get("/v1/threads"), writer.get(f"{path}/messages")]
    assert [answer.status_code for answer in refused] == [403] * 6


def test_a_run_joins_a_thread_that_is_there_and_only_with_an_agent(client: httpx.Client, say, thread: str) -> None:
    assert say(thread)["thread_id"] == thread
    assert "there is no thread" in say(NONE, status=404)["detail"]
    answer = client.post("/v1/runs", json={"task": {"command": "true"}, "thread_id": thread})
    assert (answer.status_code, "a thread is a conversation" in answer.json()["detail"]) == (422, True)
    assert len(client.get("/v1/runs", params={"thread_id": thread}).json()["items"]) == 1


def test_reject_is_409_while_another_run_goes_on(client: httpx.Client, say, thread: str) -> None:
    first = say(thread, "reject")
    assert f"run {first['id']} of it is pending" in say(thread, "reject", status=409)["detail"]
    client.post(f"/v1/runs/{first['id']}/cancel")
    say(thread, "reject")


def test_a_thread_stays_while_a_run_of_it_goes_on(client: httpx.Client, say, thread: str) -> None:
    run = say(thread)
    answer = client.delete(f"/v1/threads/{thread}")
    assert (answer.status_code, run["id"] in answer.json()["detail"]) == (409, True)
    client.post(f"/v1/runs/{run['id']}/cancel")
    assert client.delete(f"/v1/threads/{thread}").status_code == 204
    assert client.get(f"/v1/runs/{run['id']}").json()["status"] == "cancelled"


@pytest.mark.parametrize("strategy", [Multitask.INTERRUPT, Multitask.ROLLBACK])
def test_interrupt_and_rollback_cancel_what_went_on(client: httpx.Client, say, thread: str, strategy: Multitask) -> None:
    waiting = [say(thread) for _ in range(2)]
    last = say(thread, strategy.value)
    found = [client.get(f"/v1/runs/{run['id']}").json() for run in (*waiting, last)]
    left = None if strategy is Multitask.ROLLBACK else thread
    assert [(run["status"], run["thread_id"]) for run in found] == [("cancelled", left)] * 2 + [("pending", thread)]
