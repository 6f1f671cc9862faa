"""The API with its record in PostgreSQL, and with a broker that the operator gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from orchestrator.broker import Broker
from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.served import serving
from tests.services import postgres_server


@pytest.fixture(scope="module")
def service(new_home: Callable[..., Any]) -> Iterator[Service]:
    with postgres_server() as server, server.fresh_database() as url:
        address = url.render_as_string().replace("postgresql+psycopg", "postgresql")
        with new_home(DATABASE_URL=address) as settings, Service(settings) as opened:
            yield opened


def test_the_same_key_from_many_at_once_is_one_run(client: httpx.Client) -> None:
    """More of them than there are connections to the record."""
    body, headers = {"task": {"command": "true"}, "labels": {"hasty": "1"}}, {"Idempotency-Key": "x"}
    with ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(lambda _: client.post("/v1/runs", json=body, headers=headers), range(120)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(client.get("/v1/runs", params={"label": "hasty=1"}).json()["items"]) == 1


def test_many_keys_at_once_are_as_many_runs(client: httpx.Client) -> None:
    def ask(number: int) -> httpx.Response:
        headers = {"Idempotency-Key": f"k{number}"}
        return client.post("/v1/runs", json={"task": {"command": "true"}, "labels": {"many": "1"}}, headers=headers)

    with ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(ask, range(120)))
    assert {answer.status_code for answer in answers} == {201}
    made = client.get("/v1/runs", params={"label": "many=1", "limit": 1000}).json()["items"]
    assert len(made) == 120
    for run in made:  # they would keep the worker of other tests
        client.post(f"/v1/runs/{run['id']}/cancel")


def test_a_run_goes_through(client: httpx.Client, worker: None) -> None:
    run = client.post("/v1/runs", json={"task": {"command": "echo hi"}}).json()
    assert client.get(f"/v1/runs/{run['id']}/join").json()["status"] == "success"
    assert "hi" in client.get(f"/v1/runs/{run['id']}/log").text


@pytest.mark.parametrize("query", ["cursor=%00", "label=a%00=b", "label=a=%00", "thread_id=x"])
def test_what_a_server_cannot_store_is_refused(client: httpx.Client, query: str) -> None:
    assert client.get(f"/v1/runs?{query}").status_code == 422


def test_an_api_without_its_broker_says_so(new_home: Callable[..., Any], other_settings: Callable[..., Settings]) -> None:
    there = Broker(other_settings())
    there.ensure()
    with new_home(REDIS_URL=there.url) as settings, Service(settings) as service, serving(service) as api:
        client = api.client()
        assert client.get("/readyz").status_code == 200
        there.stop()
        answer = client.get("/readyz")
        assert (answer.status_code, "broker" in answer.json()["detail"]) == (503, True)
        there.ensure()
        assert client.get("/readyz").status_code == 200


def test_a_run_that_was_ordered_while_the_broker_was_away_waits_for_it(
    new_home: Callable[..., Any], other_settings: Callable[..., Settings]
) -> None:
    """The same request again must not give a run that was given up: a client repeats what failed."""
    there = Broker(other_settings())
    there.ensure()
    with new_home(REDIS_URL=there.url) as settings, Service(settings) as service, serving(service) as api:
        client, body = api.client(), {"task": {"command": "true"}}
        there.stop()
        answers = [client.post("/v1/runs", json=body, headers={"Idempotency-Key": "x"}) for _ in range(2)]
        assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [(201, "pending")] * 2
        assert len({answer.json()["id"] for answer in answers}) == 1
        there.ensure()
        service.ensure_worker()
        joined = client.get(f"/v1/runs/{answers[0].json()['id']}/join", params={"timeout": 60})
        assert joined.json()["status"] == "success"
