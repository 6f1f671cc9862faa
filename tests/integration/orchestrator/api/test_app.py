"""What holds for all routes: problems, caps, health, and what the API says of itself."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from orchestrator.broker import Broker
from orchestrator.runs.models import NewEvent, NewRun, RunStatus
from orchestrator.runs.store import Store, new_run_id, now
from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.served import Api, serving

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/no", 404), ("PUT", "/v1/runs", 405), ("GET", "/", 404)])
def test_what_there_is_not_is_a_problem(client: httpx.Client, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert (answer.json()["status"], answer.json()["instance"]) == (status, path)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/runs", "GET, POST"), ("/v1/runs/prune", "POST"), ("/v1/runs/run-1", "GET"), ("/v1/keys/key-1", "DELETE"),
        ("/v1/runs/run-1/artifacts/a/b.txt", "GET, HEAD"),
    ],
)  # fmt: skip
def test_what_may_be_done_instead_is_told(client: httpx.Client, path: str, methods: str) -> None:
    assert client.request("TRACE", path).headers["allow"] == methods


def test_a_body_that_is_no_json_is_a_problem(client: httpx.Client) -> None:
    answer = client.post("/v1/runs", content=b"{nope", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (422, PROBLEM)


def test_what_was_given_is_not_repeated(client: httpx.Client) -> None:
    answer = client.post("/v1/runs", json={"task": {"command": "true"}, "secrets": {"TOKEN": ["hunter2"]}})
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


def test_a_body_that_is_too_large_is_refused(client: httpx.Client) -> None:
    body = b'{"task": {"command": "' + b"x" * 2 * 1024**2 + b'"}}'
    headers = {"Content-Type": "application/json"}
    told = client.post("/v1/runs", content=body, headers=headers)
    assert (told.status_code, told.headers["content-type"]) == (413, PROBLEM)
    untold = client.post("/v1/runs", content=iter([body[:1024], body[1024:]]), headers=headers)
    assert (untold.status_code, untold.headers["content-type"]) == (413, PROBLEM)


@pytest.mark.parametrize("depth", [101, 900, 50_000])
def test_a_body_that_is_nested_too_deep_is_refused_and_spoils_nothing(client: httpx.Client, depth: int) -> None:
    metadata = '{"a":' * depth + "1" + "}" * depth
    answer = client.post("/v1/threads", content=f'{{"metadata": {metadata}}}', headers={"Content-Type": "application/json"})
    assert (answer.status_code in (400, 422), answer.headers["content-type"]) == (True, PROBLEM)
    assert client.post("/v1/batches", content=metadata).status_code == 422
    assert client.get("/v1/threads").status_code == 200


def test_what_an_agent_nested_too_deep_is_told_all_the_same(api: Api, client: httpx.Client) -> None:
    store, run_id = Store(api.service._of.engine), new_run_id()
    store.add(NewRun(run_id, "name", {"command": "true"}))
    lease = store.claim(run_id, "w")
    assert lease
    args: dict[str, object] = {"half": "\ud800"}
    for _ in range(400):
        args = {"a": args}
    store.append(lease, [NewEvent("tool.call", {"id": "1", "name": "ls", "args": args}, now())])
    store.finish(lease, RunStatus.SUCCESS)
    assert "..." in client.get(f"/v1/runs/{run_id}/events").text
    stream = client.get(f"/v1/runs/{run_id}/events", headers={"Accept": "text/event-stream"})
    assert "event: run.finished" in stream.text
    assert client.get(f"/v1/runs/{run_id}/log").status_code == 200


def test_only_the_operator_reads_the_metrics_unless_they_are_public(
    api: Api, client: httpx.Client, other_settings: Callable[..., Settings]
) -> None:
    others = [None, api.new_key(tenant="acme"), api.new_key("runs:read", "runs:write", "sandboxes:exec")]
    assert [api.client(key).get("/metrics").status_code for key in others] == [401, 403, 403]
    assert "fanfold_record_up" in client.get("/metrics").text
    with Service(other_settings(METRICS_PUBLIC="true")) as service, serving(service) as public:
        assert "fanfold_record_up" in public.client(None).get("/metrics").text


def test_health_needs_no_key(api: Api) -> None:
    nobody = api.client(None)
    assert nobody.get("/healthz").json() == {"status": "ok"}
    assert nobody.get("/readyz").json() == {"status": "ok"}


def test_an_api_whose_broker_is_gone_is_not_ready(other_settings: Callable[..., Settings]) -> None:
    settings = other_settings()
    with Service(settings) as service, serving(service) as api:
        client = api.client()
        Broker(settings).stop()
        assert client.get("/readyz").status_code == 200, "an embedded broker is started again"
        database, away = settings.home / "fanfold.db", settings.home / "away.db"
        database.rename(away)
        database.mkdir()
        service.close()
        answer = client.get("/readyz")
        database.rmdir()
        away.rename(database)
        assert (answer.status_code, answer.headers["content-type"]) == (503, PROBLEM)
        assert "record" in answer.json()["detail"]
        assert client.get("/healthz").status_code == 200


def test_no_other_page_may_use_it_unless_the_operator_says_so(api: Api, other_settings: Callable[..., Settings]) -> None:
    asks = {"Origin": "https://example.org", "Access-Control-Request-Method": "GET"}
    assert "access-control-allow-origin" not in api.client().get("/healthz", headers=asks).headers
    with Service(other_settings(CORS_ORIGINS="https://example.org")) as service, serving(service) as open_api:
        client = open_api.client()
        assert client.options("/v1/runs", headers=asks).headers["access-control-allow-origin"] == "https://example.org"
        other = client.options("/v1/runs", headers={**asks, "Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_the_api_describes_itself(api: Api) -> None:
    document = api.client(None).get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert list(answer["content"]) == [PROBLEM], (method, path, status)
    assert api.client(None).get("/docs").status_code == 404


def test_each_route_knows_the_parameters_of_its_description_and_no_others(client: httpx.Client) -> None:
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            names = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
            answer = client.request(method, path, params=dict.fromkeys([*names, "invented"], ""))
            assert answer.status_code == 422, (method, path)
            if method == "head":  # it says nothing more
                continue
            refused = [one["loc"] for one in answer.json()["errors"] if "unknown parameter" in one["msg"]]
            assert refused == ["query.invented"], (method, path)
