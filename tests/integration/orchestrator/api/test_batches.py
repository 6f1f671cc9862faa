"""Many runs in one call, over HTTP. No worker runs here: what is submitted waits."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.runs.files import SECRETS_FILE
from orchestrator.runs.tenants import Limits
from orchestrator.service import Service
from orchestrator.service.batches import MAX_ERRORS, MAX_LINE, MAX_RUNS
from orchestrator.settings import Settings
from tests.served import Api, serving

NDJSON = {"Content-Type": "application/x-ndjson"}


def order(command: str = "true", **more: Any) -> str:
    return json.dumps({"task": {"command": command}, **more})


def post(client: httpx.Client, lines: list[str], headers: dict[str, str] | None = None, **query: str) -> httpx.Response:
    content = "\n".join(lines).encode(errors="surrogatepass")
    return client.post("/v1/batches", content=content, params=query, headers={**NDJSON, **(headers or {})})


def submitted(client: httpx.Client, lines: list[str], **query: str) -> dict[str, Any]:
    answer = post(client, lines, **query)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"/v1/batches/{answer.json()['id']}"
    return dict(answer.json())


def runs_of(client: httpx.Client, batch_id: str) -> list[dict[str, Any]]:
    return list(client.get("/v1/runs", params={"batch_id": batch_id, "limit": 1000}).json()["items"])


@pytest.fixture
def folders(service: Service) -> Callable[[], set[str]]:
    """The folders of runs that there are."""
    return lambda: {path.name for path in Path(service.settings.runs_dir).glob("run-*")}


def test_a_run_is_submitted_for_each_line(client: httpx.Client) -> None:
    lines = [order(f"echo {number}", labels={"n": str(number)}, priority=number) for number in range(5)]
    made = submitted(client, [lines[0], "", *lines[1:], "   "], name="five of them")
    assert (made["name"], made["size"], made["counts"], made["errors"]) == ("five of them", 5, {"pending": 5}, [])
    runs = runs_of(client, made["id"])
    assert [run["task"]["command"] for run in reversed(runs)] == [f"echo {number}" for number in range(5)]
    assert [(run["labels"], run["priority"]) for run in reversed(runs)] == [({"n": str(n)}, n) for n in range(5)]
    assert client.get(f"/v1/batches/{made['id']}").json() == {key: made[key] for key in made if key != "errors"}
    listed = client.get("/v1/batches", params={"limit": 1}).json()
    assert listed["items"][0]["id"] == made["id"]


def test_nothing_is_recorded_when_a_line_of_an_atomic_batch_is_wrong(
    client: httpx.Client, folders: Callable[[], set[str]]
) -> None:
    before, known = folders(), client.get("/v1/batches").json()
    answer = post(client, [order(), "{", order(), order(task=None), order(nonsense=1)])
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["detail"].startswith("3 lines cannot be taken, and nothing was recorded; the first is line 2: ")
    assert [one["loc"] for one in problem["errors"]] == ["line 2", "line 4", "line 5"]
    assert "nonsense" in problem["errors"][2]["msg"]
    assert folders() == before
    assert client.get("/v1/batches").json() == known


def test_the_good_lines_of_a_partial_batch_are_recorded(client: httpx.Client, folders: Callable[[], set[str]]) -> None:
    before = folders()
    made = submitted(client, [order("one"), "no json", order("two"), json.dumps({"task": {}})], mode="partial")
    assert [one["line"] for one in made["errors"]] == [2, 4]
    assert (made["size"], made["counts"]) == (2, {"pending": 2})
    runs = runs_of(client, made["id"])
    assert {run["task"]["command"] for run in runs} == {"one", "two"}
    assert folders() - before == {run["id"] for run in runs}


def test_many_wrong_lines_are_counted_and_the_first_of_them_told(client: httpx.Client) -> None:
    lines = [order(), *["{}"] * (MAX_ERRORS + 50)]
    refused = post(client, lines)
    assert refused.json()["detail"].startswith(f"{MAX_ERRORS + 50} lines cannot be taken")
    assert [one["loc"] for one in refused.json()["errors"]] == [f"line {n + 2}" for n in range(MAX_ERRORS)]
    assert [one["line"] for one in submitted(client, lines, mode="partial")["errors"]] == list(range(2, MAX_ERRORS + 2))


@pytest.mark.parametrize("mode", ["atomic", "partial"])
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([], "the batch is empty"),
        ([" ", ""], "the batch is empty"),
        (["[" * 100_000], "line 1: "),
        (["\ud800"], "line 1: "),
        (["{}"], "1 line cannot be taken, and nothing was recorded; the first is line 1: task: "),
        ([order("x" * MAX_LINE)], "longer than"),
        ([order("echo", secrets={"A": "hunter2-\0-batch"})], "NUL"),
        ([order(uploads={"inputs": "upl-000000000000"})], "upl-000000000000"),
        ([json.dumps({"task": {"command": "true", "inputs": {"path": "."}}})], "names no files"),
        ([order(thread_id="thr-000000000000")], "is a command: leave `thread_id` out"),
        ([json.dumps({"task": {"agent": {"prompt": "p", "model": "scripted:f"}}})], "upload the file"),
    ],
    ids=["nothing", "blank", "deep", "half", "empty", "long", "nul", "upload", "path", "talks", "model"],
)
def test_a_batch_without_a_good_line_is_refused(client: httpx.Client, lines: list[str], reason: str, mode: str) -> None:
    answer = post(client, lines, mode=mode)
    assert answer.status_code == 422
    assert reason in answer.text
    assert "hunter2" not in answer.text


def test_a_batch_has_at_most_so_many_runs(client: httpx.Client, folders: Callable[[], set[str]]) -> None:
    before = folders()
    answer = post(client, ["{}"] * (MAX_RUNS + 1), mode="partial")
    assert answer.status_code == 422
    assert f"line {MAX_RUNS + 1}: a batch has at most 10,000 runs" in answer.json()["detail"]
    assert folders() == before


def test_ten_thousand_runs_go_in_at_once_and_are_cancelled_at_once(client: httpx.Client) -> None:
    made = submitted(client, [order()] * MAX_RUNS)
    assert made["counts"] == {"pending": MAX_RUNS}
    answer = client.post(f"/v1/batches/{made['id']}/cancel")
    assert (answer.status_code, answer.json()["counts"]) == (202, {"cancelled": MAX_RUNS})


def test_a_request_that_comes_again_is_the_same_batch(client: httpx.Client) -> None:
    lines, key = [order("once"), "wrong"], {"Idempotency-Key": "batch-1"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: post(client, lines, key, mode="partial"), range(4)))
    assert [answer.status_code for answer in answers] == [201] * 4
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert [[one["line"] for one in answer.json()["errors"]] for answer in answers] == [[2]] * 4
    assert len(runs_of(client, answers[0].json()["id"])) == 1
    for other in (post(client, [order("twice")], key, mode="partial"), post(client, lines, key, mode="atomic")):
        assert other.status_code == 409


def test_secrets_of_a_batch_are_only_in_folders_until_it_is_cancelled(client: httpx.Client, service: Service) -> None:
    task = {"command": "true", "secrets": {"TOKEN": "${MINE}"}}
    made = submitted(client, [json.dumps({"task": task, "secrets": {"MINE": f"hunter2-{n}"}}) for n in range(3)])
    runs = runs_of(client, made["id"])
    assert "hunter2" not in json.dumps(runs)
    files = [service.settings.runs_dir / run["id"] / SECRETS_FILE for run in runs]
    assert all(path.exists() for path in files)
    client.post(f"/v1/batches/{made['id']}/cancel")
    assert not any(path.exists() for path in files)


def upload(client: httpx.Client, content: bytes) -> str:
    answer = client.post("/v1/uploads", content=content, headers={"Content-Type": "application/octet-stream"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def archive(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as out:
        for name, text in files.items():
            out.writestr(name, text)
    return content.getvalue()


def test_runs_that_take_the_same_upload_share_what_was_frozen(
    client: httpx.Client, service: Service, folders: Callable[[], set[str]]
) -> None:
    before, one, two = folders(), upload(client, archive(a="1")), upload(client, archive(b="2"))
    made = submitted(client, [order(uploads={"inputs": given}) for given in (one, one, two, one)])
    runs = runs_of(client, made["id"])[::-1]
    assert folders() - before == {run["id"] for run in runs}
    frozen = [service.settings.runs_dir / run["id"] / "input.tar" for run in runs]
    with tarfile.open(frozen[0]) as first, tarfile.open(frozen[2]) as third:
        assert (first.getnames(), third.getnames()) == (["a"], ["b"])
    assert [path.stat().st_nlink for path in frozen] == [3, 3, 1, 3]


def test_an_upload_that_cannot_be_taken_is_told_of_each_line(client: httpx.Client, folders: Callable[[], set[str]]) -> None:
    before, bad = folders(), upload(client, archive(**{"../out": "1"}))
    made = submitted(client, [order(), *[order(uploads={"inputs": bad})] * 2], mode="partial")
    assert [one["line"] for one in made["errors"]] == [2, 3]
    assert made["errors"][0]["detail"] == made["errors"][1]["detail"]
    assert "out" in made["errors"][0]["detail"]
    assert len(folders() - before) == 1


def test_the_thread_of_a_line_must_be_there(client: httpx.Client, api: Api) -> None:
    script = upload(client, b"turns: [{text: Hello.}]")
    agent = {"task": {"agent": {"prompt": "Go.", "model": "scripted:a.yaml"}}, "uploads": {"model": script}}
    mine = client.post("/v1/threads").json()["id"]
    theirs = api.of("another").post("/v1/threads").json()["id"]

    def line(thread: str, **more: str) -> str:
        return json.dumps({**agent, "thread_id": thread, **more})

    made = submitted(client, [line(mine), line(theirs), line(mine, multitask_strategy="reject"), line(mine)], mode="partial")
    assert [one["line"] for one in made["errors"]] == [2, 3]
    assert f"there is no thread '{theirs}'" in made["errors"][0]["detail"]
    assert "it can only be 'enqueue'" in made["errors"][1]["detail"]
    assert [run["thread_id"] for run in runs_of(client, made["id"])] == [mine, mine]


def test_a_queue_that_is_full_takes_none_of_them(other_settings: Callable[..., Settings]) -> None:
    with Service(other_settings()) as service, serving(service) as api:
        service.tenants.set("small", Limits(max_queued=3))
        client = api.of("small")
        answer = post(client, [order()] * 4)
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert client.get("/v1/batches").json()["items"] == []
        assert list(Path(service.settings.runs_dir).glob("run-*")) == []
        assert submitted(client, [order()] * 3)["size"] == 3


def test_pages_of_batches_have_each_once(api: Api) -> None:
    client = api.of("paged")
    made = [submitted(client, [order()])["id"] for _ in range(5)]
    seen, query = [], {"limit": "2"}
    while True:
        page = client.get("/v1/batches", params=query).json()
        seen += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        query = {"limit": "2", "cursor": page["next_cursor"]}
    assert seen == made[::-1]
    assert client.get("/v1/batches", params={"cursor": "nonsense"}).status_code == 422


def test_another_tenants_batch_is_not_there(client: httpx.Client, api: Api) -> None:
    made = submitted(client, [order()])
    other = api.of("another")
    assert other.get(f"/v1/batches/{made['id']}").status_code == 404
    assert other.post(f"/v1/batches/{made['id']}/cancel").status_code == 404
    assert made["id"] not in other.get("/v1/batches").text
    assert client.get(f"/v1/batches/{made['id']}").json()["counts"] == {"pending": 1}


def test_a_batch_needs_the_scope_to_write(api: Api) -> None:
    reader = api.client(api.new_key("runs:read"))
    assert post(reader, [order()]).status_code == 403
    assert reader.get("/v1/batches").status_code == 200
    writer = api.client(api.new_key("runs:write"))
    assert writer.get("/v1/batches").status_code == 403
