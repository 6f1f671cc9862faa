"""Runs are submitted, found, followed, and what they left is fetched, over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.served import Api, serving

pytestmark = pytest.mark.usefixtures("worker")


def submit(client: httpx.Client, command: str = "true", **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/runs", json={"task": {"command": command}, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def ended(client: httpx.Client, run_id: str) -> dict[str, Any]:
    answer = client.get(f"/v1/runs/{run_id}/join", params={"timeout": 60})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def parse(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Server-sent events."""
    event: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value
        elif not line and event:
            yield event
            event = {}


@pytest.fixture(scope="module")
def done(client: httpx.Client, worker: None) -> dict[str, Any]:
    """A run that left something."""
    task = {
        "name": "leaves",
        "command": "echo hello; mkdir out; seq 1 100000 > out/big.txt; echo é > out/é.txt",
        "outputs": {"files": ["out/*"]},
    }
    answer = client.post("/v1/runs", json={"task": task, "labels": {"ci/job": "42"}, "priority": 7})
    assert answer.headers["location"] == f"/v1/runs/{answer.json()['id']}"
    return ended(client, answer.json()["id"])


def test_a_run_goes_through(done: dict[str, Any]) -> None:
    assert (done["status"], done["exit_code"], done["error"]) == ("success", 0, None)
    assert (done["labels"], done["priority"], done["tenant"]) == ({"ci/job": "42"}, 7, "default")
    assert done["finished_at"].endswith("Z")


def test_a_run_is_found_by_a_beginning_of_its_id(client: httpx.Client, done: dict[str, Any]) -> None:
    assert client.get(f"/v1/runs/{done['id'][4:12]}").json() == done
    assert client.get("/v1/runs/zzz").status_code == 404


def test_its_events_come_as_a_page_or_a_stream(client: httpx.Client, done: dict[str, Any]) -> None:
    path = f"/v1/runs/{done['id']}/events"
    page = client.get(path).json()
    assert page["ended"]
    assert [one["seq"] for one in page["items"]] == list(range(1, len(page["items"]) + 1))
    with client.stream("GET", path, headers={"Accept": "text/event-stream"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        streamed = list(parse(answer.iter_lines()))
    assert [json.loads(one["data"]) for one in streamed] == page["items"]
    assert [(int(one["id"]), one["event"]) for one in streamed] == [(one["seq"], one["type"]) for one in page["items"]]
    with client.stream("GET", path, headers={"Accept": "text/event-stream", "Last-Event-ID": "2"}) as answer:
        assert int(next(parse(answer.iter_lines()))["id"]) == 3
    assert client.get(path, params={"after": 2, "limit": 1}).json()["items"] == page["items"][2:3]
    assert client.get(path, params={"after": len(page["items"]), "wait": 30}).json() == {"items": [], "ended": True}


def test_a_stream_tells_what_happens_as_it_does(client: httpx.Client) -> None:
    run = submit(client, "until [ -e go ]; do sleep 0.05; done; echo gone")
    with client.stream("GET", f"/v1/runs/{run['id']}/events", headers={"Accept": "text/event-stream"}) as answer:
        for event in parse(answer.iter_lines()):
            if event["event"] == "command.started":
                assert client.post(f"/v1/runs/{run['id']}/cancel").status_code == 202
    assert event["event"] == "run.finished"
    assert ended(client, run["id"])["status"] == "cancelled"


def test_a_long_poll_answers_when_something_happens(client: httpx.Client) -> None:
    run, after, types = submit(client, "echo hi"), 0, []
    while True:
        page = client.get(f"/v1/runs/{run['id']}/events", params={"after": after, "wait": 60}).json()
        types += [one["type"] for one in page["items"]]
        if page["ended"]:
            break
        assert page["items"]
        after = page["items"][-1]["seq"]
    assert types[-1] == "run.finished"


def test_join_says_that_a_run_goes_on(client: httpx.Client) -> None:
    run = submit(client, "sleep 600")
    answer = client.get(f"/v1/runs/{run['id']}/join", params={"timeout": 0})
    assert (answer.status_code, answer.json()["id"]) == (202, run["id"])
    assert client.post(f"/v1/runs/{run['id']}/retry").status_code == 409
    client.post(f"/v1/runs/{run['id']}/cancel")
    assert ended(client, run["id"])["status"] == "cancelled"


def test_its_log_is_dated_lines(client: httpx.Client, done: dict[str, Any]) -> None:
    answer = client.get(f"/v1/runs/{done['id']}/log")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert any(line.endswith("hello") and line[:2] == "20" for line in answer.text.splitlines())


def test_its_attempts_and_usage_are_listed(client: httpx.Client, done: dict[str, Any]) -> None:
    [attempt] = client.get(f"/v1/runs/{done['id']}/attempts").json()["items"]
    assert (attempt["attempt"], attempt["status"], attempt["provider"]) == (1, "success", "local")
    usage = client.get(f"/v1/runs/{done['id']}/usage").json()
    spent = {"tokens": 0, "cost_micros": 0, "sandbox_seconds": attempt["sandbox_seconds"]}
    assert usage == {"items": [], "with_children": spent}


def test_an_artifact_is_fetched_whole_and_in_parts(client: httpx.Client, done: dict[str, Any]) -> None:
    left = {one["name"]: one for one in client.get(f"/v1/runs/{done['id']}/artifacts").json()["items"]}
    path, whole = f"/v1/runs/{done['id']}/artifacts/files/out/big.txt", "".join(f"{n}\n" for n in range(1, 100001)).encode()
    answer = client.get(path)
    assert answer.content == whole
    assert hashlib.sha256(whole).hexdigest() == left["files/out/big.txt"]["sha256"]
    etag = answer.headers["etag"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment")
    for wanted, part in {"bytes=0-9": whole[:10], "bytes=-7": whole[-7:], "bytes=588800-": whole[588800:]}.items():
        partial = client.get(path, headers={"Range": wanted})
        assert (partial.status_code, partial.content) == (206, part)
        assert partial.headers["content-range"].endswith(f"/{len(whole)}")
    beyond = client.get(path, headers={"Range": f"bytes={len(whole)}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(whole)}")
    assert client.get(path, headers={"If-None-Match": etag}).status_code == 304
    assert client.get(path, headers={"Range": "bytes=0-0", "If-Range": '"old"'}).content == whole
    head = client.head(path)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(whole)), b"")


def test_names_of_artifacts_are_what_a_sandbox_chose(client: httpx.Client, done: dict[str, Any]) -> None:
    answer = client.get(f"/v1/runs/{done['id']}/artifacts/files/out/é.txt")
    assert (answer.text, answer.headers["content-disposition"]) == ("é\n", "attachment; filename*=UTF-8''%C3%A9.txt")
    assert client.get(f"/v1/runs/{done['id']}/artifacts/nothing").status_code == 404
    assert client.get(f"/v1/runs/{done['id']}/artifacts/../../../etc/passwd").status_code == 404


def test_a_run_is_tried_again_with_the_same_task(client: httpx.Client, done: dict[str, Any]) -> None:
    answer = client.post(f"/v1/runs/{done['id']}/retry")
    assert answer.status_code == 201
    assert answer.json()["id"] != done["id"]
    again = ended(client, answer.json()["id"])
    assert (again["status"], again["task"], again["labels"]) == ("success", done["task"], done["labels"])


def test_secrets_come_with_the_request_and_are_not_shown(client: httpx.Client) -> None:
    task = {"command": 'test "${#TOKEN}" = 15', "secrets": {"TOKEN": "${MY_TOKEN}"}}
    assert client.post("/v1/runs", json={"task": task}).status_code == 422
    made = client.post("/v1/runs", json={"task": task, "secrets": {"MY_TOKEN": "hunter2-hunter2"}})
    assert "hunter2" not in made.text
    run = ended(client, made.json()["id"])
    assert run["status"] == "success"
    assert client.post(f"/v1/runs/{run['id']}/retry").status_code == 422
    again = client.post(f"/v1/runs/{run['id']}/retry", json={"secrets": {"MY_TOKEN": "hunter2-hunter2"}})
    assert ended(client, again.json()["id"])["status"] == "success"


def test_the_servers_own_environment_is_no_secret_of_a_task(client: httpx.Client) -> None:
    answer = client.post("/v1/runs", json={"task": {"command": "true", "secrets": {"X": "${PATH}"}}})
    assert answer.status_code == 422


def test_old_runs_are_pruned_by_an_admin(api: Api) -> None:
    client = api.of("pruned")
    runs = [ended(client, submit(client)["id"])["id"] for _ in range(2)]
    assert client.post("/v1/runs/prune", json={}).status_code == 422
    assert client.post("/v1/runs/prune", json={"keep": 1, "dry_run": True}).json() == {"items": [runs[0]]}
    assert client.post("/v1/runs/prune", json={"keep": 1}).json() == {"items": [runs[0]]}
    assert client.get(f"/v1/runs/{runs[0]}").status_code == 404
    assert api.of("pruned", "runs:write", "runs:read").post("/v1/runs/prune", json={"keep": 1}).status_code == 403


def test_the_same_key_and_body_are_one_run(client: httpx.Client) -> None:
    first = client.post("/v1/runs", json={"task": {"command": "true"}}, headers={"Idempotency-Key": "one"})
    same = client.post("/v1/runs", json={"task": {"command": "true"}, "labels": {}}, headers={"Idempotency-Key": "one"})
    assert (same.status_code, same.json()["id"]) == (201, first.json()["id"])
    other = client.post("/v1/runs", json={"task": {"command": "false"}}, headers={"Idempotency-Key": "one"})
    assert other.status_code == 409


def test_a_refused_request_does_not_use_up_its_key(client: httpx.Client) -> None:
    headers = {"Idempotency-Key": "mended"}
    refused = client.post("/v1/runs", json={"task": {"command": "true", "inputs": {"path": "x"}}}, headers=headers)
    assert refused.status_code == 422
    again = client.post("/v1/runs", json={"task": {"command": "true", "inputs": {"path": "x"}}}, headers=headers)
    assert again.status_code == 422


def test_keys_of_two_tenants_are_apart(api: Api) -> None:
    body, headers = {"task": {"command": "true"}}, {"Idempotency-Key": "k"}
    made = [api.of(name).post("/v1/runs", json=body, headers=headers) for name in ("one", "two")]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json()["id"] != made[1].json()["id"]


def test_the_same_key_at_once_is_one_run(api: Api) -> None:
    client = api.of("hasty")
    body = {"task": {"command": "true"}}
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/runs", json=body, headers={"Idempotency-Key": "x"}), range(24)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(client.get("/v1/runs").json()["items"]) == 1


def test_runs_are_listed_in_pages(api: Api) -> None:
    client = api.of("lister")
    made = [submit(client, labels={"n": str(n), "odd": str(n % 2)})["id"] for n in range(5)]
    newest_first = made[::-1]
    seen, cursor, pages = [], None, 0
    while True:
        page = client.get("/v1/runs", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [run["id"] for run in page["items"]]
        pages, cursor = pages + 1, page["next_cursor"]
        if cursor is None:
            break
    assert (seen, pages) == (newest_first, 3)
    odd = client.get("/v1/runs", params={"label": ["odd=1", "n=3"]}).json()["items"]
    assert [run["id"] for run in odd] == [made[3]]
    for run_id in made:
        ended(client, run_id)
    assert len(client.get("/v1/runs", params={"status": ["success", "error"]}).json()["items"]) == 5
    assert client.get("/v1/runs", params={"status": "pending"}).json()["items"] == []


@pytest.mark.parametrize(
    "query",
    [
        "stauts=error", "status=none", "limit=0", "limit=1001", "cursor=nonsense", "label=x", "created_after=today", "after=1",
        "created_after=2026-01-01T00:00:00", "thread_id=%00", "cursor=W10", "label=a%3Db&label=a%3Dc", "label=a%00%3Db",
    ],
)  # fmt: skip
def test_a_filter_that_means_nothing_is_refused(client: httpx.Client, query: str) -> None:
    answer = client.get(f"/v1/runs?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_anothers_run_is_not_there(api: Api, done: dict[str, Any]) -> None:
    other, path = api.of("stranger"), f"/v1/runs/{done['id']}"
    reads = ("", "/events", "/join", "/log", "/attempts", "/usage", "/artifacts", "/artifacts/command.log")
    assert {other.get(path + end).status_code for end in reads} == {404}
    assert {other.post(path + end).status_code for end in ("/cancel", "/retry")} == {404}
    assert other.post(path + "/decide", json={"decisions": [{"type": "approve"}]}).status_code == 404
    assert other.get(path + "/events", headers={"Accept": "text/event-stream"}).status_code == 404
    assert other.get("/v1/runs").json()["items"] == []


def test_workers_are_listed(client: httpx.Client) -> None:
    assert client.get("/v1/workers").json()["items"][0]["concurrency"] == 4


def test_a_task_that_names_no_provider_gets_that_of_the_server(other_settings: Callable[..., Settings]) -> None:
    with Service(other_settings(PROVIDER="auto")) as service, serving(service) as api:
        run = submit(api.client())
        assert run["provider"] == service.get(run["id"]).spec["sandbox"]["provider"] == "auto"


def test_a_server_that_ends_ends_its_streams(other_settings: Callable[..., Settings]) -> None:
    with Service(other_settings()) as service, serving(service) as served:
        own = served.client()
        run = own.post("/v1/runs", json={"task": {"command": "true"}}).json()
        with (
            ThreadPoolExecutor(1) as pool,
            own.stream("GET", f"/v1/runs/{run['id']}/events", headers={"Accept": "text/event-stream"}) as answer,
        ):
            assert answer.status_code == 200
            rest = pool.submit(lambda: list(answer.iter_lines()))
            served.stop()
            assert rest.result(timeout=30) == []
