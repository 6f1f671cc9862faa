"""Requests are measured by their route."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI, HTTPException
from fastapi.testclient import TestClient

from orchestrator.telemetry.metrics import Metrics
from orchestrator.telemetry.traces import current_traceparent
from orchestrator.telemetry.web import UNOBSERVED, ObservedRequests
from tests.scraping import read

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
COUNT = "fanfold_http_request_duration_seconds_count"


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def client(metrics: Metrics) -> TestClient:
    router = APIRouter()

    @router.get("/things/{thing_id}/files/{name:path}")
    def get_file(thing_id: int, name: str) -> dict[str, str | None]:
        if name == "missing":
            raise HTTPException(404)
        if name == "broken":
            raise RuntimeError("broken")
        return {"trace": current_traceparent()}

    app = FastAPI(telemetry=UNOBSERVED)
    app.include_router(router, prefix="/v1")
    app.add_middleware(ObservedRequests, metrics=metrics)
    return TestClient(app, raise_server_exceptions=False)


def test_a_request_counts_for_its_route_and_status(client: TestClient, metrics: Metrics) -> None:
    for path in ("a", "b/c", "missing", "broken"):
        client.get(f"/v1/things/7/files/{path}")
    found = read(metrics.render())
    route = "/v1/things/{thing_id}/files/{name:path}".replace(":path", "")
    assert {labels[2]: n for (name, labels), n in found.items() if name == COUNT and labels[1] == route} == {
        "200": 2,
        "404": 1,
        "500": 1,
    }


def test_what_fits_no_route_is_one_row(client: TestClient, metrics: Metrics) -> None:
    client.get("/v1/nothing")
    client.request("BREW", "/v1/pot")
    found = read(metrics.render())
    assert found[COUNT, ("GET", "none", "404")] == 1
    assert found[COUNT, ("_OTHER", "none", "404")] == 1


def test_a_request_goes_on_with_the_trace_of_its_caller(client: TestClient) -> None:
    assert client.get("/v1/things/7/files/a", headers={"traceparent": CALLER}).json() == {"trace": CALLER}
    assert client.get("/v1/things/7/files/a").json() == {"trace": None}
