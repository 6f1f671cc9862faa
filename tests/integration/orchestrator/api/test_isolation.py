"""No tenant sees, changes or uses what is another's, and no key does more than its scopes say: every operation is tried.

The operations are read from the API's own description. One that is new is tried as its method and its address suggest; where
that does not do, the tests fail until it is told here what to send.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import pytest

from orchestrator.runs.listing import make_cursor
from tests.furnished import NDJSON, ORDER, furnished
from tests.served import Api

OWNER, OTHER = "acme", "bravo"
TASK: Mapping[str, Any] = {"command": "true"}
AGENT: Mapping[str, Any] = {"agent": {"prompt": "Talk.", "model": "scripted:it"}}
OPEN = frozenset({"GET /healthz", "GET /readyz"})
"""What needs no key, beside the description itself."""
OPERATES = frozenset(
    {"GET /v1/tenants", "GET /v1/tenants/{tenant_id}", "PUT /v1/tenants/{tenant_id}", "GET /v1/tenants/{tenant_id}/usage",
     "GET /metrics"}
)  # fmt: skip
"""What only an admin of the tenant `default` may do."""
SCOPES: Mapping[str, str] = {
    "POST /v1/sandboxes/{sandbox_id}/exec": "sandboxes:exec",
    "POST /v1/runs/prune": "admin",
    "POST /v1/keys": "admin",
    "GET /v1/keys": "admin",
    "DELETE /v1/keys/{key_id}": "admin",
}
"""The scope that an operation needs, where it is not `runs:read` for GET and HEAD and `runs:write` for all else."""
BELOW_ADMIN = ("runs:read", "runs:write", "sandboxes:exec")
BODIES: Mapping[str, Any] = {
    "POST /v1/runs/{run_id}/decide": {"decisions": [{"type": "approve"}]},
    "PATCH /v1/threads/{thread_id}": {"metadata": {"about": "us"}},
    "PATCH /v1/schedules/{schedule_id}": {"enabled": False},
    "PATCH /v1/webhooks/{webhook_id}": {"url": "https://example.org/ours"},
    "POST /v1/sandboxes/{sandbox_id}/keep": {"seconds": 1},
    "POST /v1/sandboxes/{sandbox_id}/exec": {"command": "rm -rf /workspace"},
}
"""What is sent to addresses of things."""
TRIED_APART = frozenset(
    {"POST /v1/runs", "POST /v1/runs/prune", "POST /v1/batches", "POST /v1/threads", "POST /v1/uploads", "POST /v1/schedules",
     "POST /v1/webhooks", "POST /v1/keys"}
)  # fmt: skip
"""What makes or removes things without an address: each has its own test here, or names nothing of anybody (threads, uploads,
webhooks and keys)."""
OF_THE_INSTALLATION = frozenset({"GET /v1/me", "GET /v1/workers"})
"""What tells of no tenant's things."""


@dataclass(frozen=True)
class Operation:
    """One thing that the API can do."""

    method: str
    template: str

    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def of_a_thing(self) -> bool:
        """Whether its address names a thing."""
        return "{" in self.template

    @property
    def reads(self) -> bool:
        return self.method == "GET"

    @property
    def scope(self) -> str:
        return SCOPES.get(str(self), "runs:read" if self.method in ("GET", "HEAD") else "runs:write")

    def send(self, client: httpx.Client, ids: Mapping[str, str]) -> httpx.Response:
        """Do it to these things."""
        return client.request(self.method, self.template.format(**ids), json=BODIES.get(str(self)))


@pytest.fixture(scope="module")
def operations(api: Api) -> list[Operation]:
    paths = api.client(None).get("/openapi.json").json()["paths"]
    return [Operation(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.fixture(scope="module")
def tenants_own(operations: list[Operation]) -> list[Operation]:
    """What tenants do to their things."""
    return [one for one in operations if str(one) not in OPEN | OPERATES | OF_THE_INSTALLATION]


@pytest.fixture(scope="module")
def theirs(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with furnished(api, OWNER, tmp_path_factory.mktemp(OWNER)) as ids:
        yield ids


@pytest.fixture(scope="module")
def ours(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with furnished(api, OTHER, tmp_path_factory.mktemp(OTHER)) as ids:
        yield ids


@pytest.fixture(scope="module")
def owner(api: Api) -> httpx.Client:
    return api.of(OWNER)


@pytest.fixture(scope="module")
def other(api: Api) -> httpx.Client:
    return api.of(OTHER)


@pytest.fixture(autouse=True)
def unchanged(owner: httpx.Client, tenants_own: list[Operation], theirs: dict[str, str]) -> Iterator[None]:
    """Whatever a test tries with another's key, all that the owner sees stays as it was."""
    before = seen(owner, tenants_own, theirs)
    yield
    assert seen(owner, tenants_own, theirs) == before


def seen(client: httpx.Client, operations: list[Operation], ids: Mapping[str, str]) -> dict[str, Any]:
    """All that a tenant can read of its things."""
    found: dict[str, Any] = {}
    for one in (one for one in operations if one.reads):
        answer = one.send(client, ids)
        assert answer.status_code == 200, (str(one), answer.text)
        found[str(one)] = answer.json() if answer.headers["content-type"] == "application/json" else answer.text
    for key in found["GET /v1/keys"]["items"]:
        del key["used_at"]
    return found


def test_each_operation_is_tried(operations: list[Operation], tenants_own: list[Operation]) -> None:
    elsewhere = {str(one) for one in tenants_own if not one.of_a_thing and not one.reads}
    assert elsewhere == TRIED_APART, "say here what is to be sent to it, and test that it takes nothing of another tenant's"
    assert {str(one) for one in operations} >= OPEN | OPERATES | OF_THE_INSTALLATION | SCOPES.keys() | BODIES.keys()


def test_the_owner_sees_its_things(owner: httpx.Client, tenants_own: list[Operation], theirs: dict[str, str]) -> None:
    """Otherwise nothing would be proved by others' not seeing them."""
    told = json.dumps(seen(owner, tenants_own, theirs))
    shown = {name: value for name, value in theirs.items() if name != "upload_id"}  # uploads are not shown
    assert {name for name, value in shown.items() if value not in told} == set()
    assert f"what {OWNER} left" in told
    assert "the secret of the thread" in told


def test_what_is_anothers_is_not_there(
    other: httpx.Client, tenants_own: list[Operation], theirs: dict[str, str], ours: dict[str, str]
) -> None:
    answers = {str(one): one.send(other, theirs).status_code for one in tenants_own if one.of_a_thing}
    assert {name: status for name, status in answers.items() if status != 404} == {}
    mixed = {**theirs, "run_id": ours["run_id"], "name": "left/../behind.txt"}
    artifact = Operation("GET", "/v1/runs/{run_id}/artifacts/{name}")
    assert artifact.send(other, mixed).status_code == 404


def test_the_beginning_of_anothers_id_is_not_enough(other: httpx.Client, theirs: dict[str, str]) -> None:
    for length in range(5, len(theirs["run_id"])):
        answer = other.get(f"/v1/runs/{theirs['run_id'][:length]}")
        assert theirs["run_id"] not in answer.text or answer.status_code == 404


def test_lists_do_not_show_what_is_anothers(
    other: httpx.Client, tenants_own: list[Operation], theirs: dict[str, str], ours: dict[str, str]
) -> None:
    told = json.dumps(seen(other, tenants_own, ours))
    assert {name for name, value in theirs.items() if value in told and name != "name"} == set()
    assert f"what {OWNER} left" not in told


@pytest.mark.parametrize(("name", "of"), [("thread_id", "thread_id"), ("batch_id", "batch_id"), ("parent_id", "run_id")])
def test_filters_do_not_find_what_is_anothers(
    owner: httpx.Client, other: httpx.Client, theirs: dict[str, str], name: str, of: str
) -> None:
    query = {name: theirs[of]}
    assert owner.get("/v1/runs", params=query).json()["items"]
    assert other.get("/v1/runs", params=query).json()["items"] == []
    assert other.get("/v1/runs", params={"label": f"whose={OWNER}"}).json()["items"] == []


def test_children_in_a_list_are_ones_own(other: httpx.Client, ours: dict[str, str], theirs: dict[str, str]) -> None:
    listed = {run["id"] for run in other.get("/v1/runs", params={"with_children": True, "limit": 1000}).json()["items"]}
    assert ours["child_id"] in listed
    assert theirs["child_id"] not in listed
    assert other.get(f"/v1/runs/{theirs['child_id']}").status_code == 404


@pytest.mark.parametrize("path", ["runs", "batches", "threads", "schedules", "webhooks"])
def test_anothers_cursor_shows_ones_own(
    owner: httpx.Client, other: httpx.Client, ours: dict[str, str], theirs: dict[str, str], path: str
) -> None:
    newest = owner.get(f"/v1/{path}").json()["items"][0]
    cursor = make_cursor(datetime.fromisoformat(newest["created_at"]), newest["id"])
    page = other.get(f"/v1/{path}", params={"cursor": cursor})
    assert page.status_code == 200
    assert {item["tenant"] for item in page.json()["items"]} <= {OTHER}


def _orders(ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Runs that would use somebody's things."""
    return [
        {"task": AGENT, "uploads": {"model": ids["upload_id"]}},
        {"task": TASK, "uploads": {"inputs": ids["upload_id"]}},
    ]


def test_no_run_uses_what_is_anothers(other: httpx.Client, theirs: dict[str, str], ours: dict[str, str]) -> None:
    talk = {"task": AGENT, "uploads": {"model": ours["upload_id"]}, "thread_id": theirs["thread_id"]}
    answers = [other.post("/v1/runs", json=order) for order in [*_orders(theirs), talk]]
    assert [answer.status_code for answer in answers] == [404] * 3, [answer.text for answer in answers]
    own = other.post("/v1/runs", json={**talk, "thread_id": ours["thread_id"]})
    assert own.status_code == 201, own.text


def test_no_batch_uses_what_is_anothers(other: httpx.Client, theirs: dict[str, str], ours: dict[str, str]) -> None:
    talk = {"task": AGENT, "uploads": {"model": ours["upload_id"]}, "thread_id": theirs["thread_id"]}
    lines = [json.dumps(order) for order in [*_orders(theirs), talk]]
    answer = other.post("/v1/batches", content="\n".join(lines), headers=NDJSON)
    assert answer.status_code == 422
    assert [fault["loc"] for fault in answer.json()["errors"]] == ["line 1", "line 2", "line 3"]
    assert all("there is no" in fault["msg"] for fault in answer.json()["errors"]), answer.text


def test_no_schedule_uses_what_is_anothers(other: httpx.Client, theirs: dict[str, str], ours: dict[str, str]) -> None:
    talk = {"task": {"agent": {"prompt": "Talk.", "model": "openai:gpt"}}, "thread_id": theirs["thread_id"]}
    made = other.post("/v1/schedules", json={"name": "x", "cron": "0 0 1 1 *", "run": talk})
    assert made.status_code == 404, made.text
    changed = other.patch(f"/v1/schedules/{ours['schedule_id']}", json={"run": talk})
    assert changed.status_code == 404, changed.text


def test_an_idempotency_key_is_the_tenants_own(owner: httpx.Client, other: httpx.Client, theirs: dict[str, str]) -> None:
    used = {"Idempotency-Key": OWNER}
    assert owner.post("/v1/runs", json=ORDER, headers=used).status_code == 409, "the owner has used it for the run"
    made = other.post("/v1/runs", json=ORDER, headers=used)
    assert (made.status_code, made.json()["tenant"]) == (201, OTHER)
    assert made.json()["id"] != theirs["run_id"]


def test_pruning_removes_ones_own_alone(other: httpx.Client, theirs: dict[str, str], ours: dict[str, str]) -> None:
    chosen = other.post("/v1/runs/prune", json={"keep": 0, "dry_run": True}).json()["items"]
    assert chosen == [ours["run_id"]]


def test_an_upload_of_the_owner_is_still_there(owner: httpx.Client, theirs: dict[str, str]) -> None:
    """Nothing shows uploads, but they can be used."""
    refused = owner.post("/v1/runs", json={"task": TASK, "uploads": {"inputs": theirs["upload_id"]}})
    assert refused.status_code == 422, "it is a script, not an archive"


def test_what_the_operator_does_is_nobody_elses(
    api: Api, other: httpx.Client, operations: list[Operation], theirs: dict[str, str]
) -> None:
    weaker = api.of("default", *BELOW_ADMIN)
    for one in operations:
        if str(one) in OPERATES:
            assert (str(one), one.send(other, theirs).status_code) == (str(one), 403)
            assert (str(one), one.send(weaker, theirs).status_code) == (str(one), 403)
    assert OWNER not in other.get("/v1/me").text


def test_a_key_without_the_scope_opens_nothing(api: Api, operations: list[Operation], ours: dict[str, str]) -> None:
    clients = {scope: api.of(OTHER, *(one for one in BELOW_ADMIN if one != scope)) for scope in (*BELOW_ADMIN, "admin")}
    tried = {str(one): one.send(clients[one.scope], ours).status_code for one in operations if str(one) not in OPEN}
    assert {name: status for name, status in tried.items() if status != 403} == {}


def test_the_scope_is_all_that_a_key_needs(api: Api, tenants_own: list[Operation], ours: dict[str, str]) -> None:
    nothing = {name: value[:-4] + "0000" if "-" in value else value for name, value in ours.items()}
    clients = {scope: api.of(OTHER, scope) for scope in (*BELOW_ADMIN, "admin")}
    tried = {str(one): one.send(clients[one.scope], nothing).status_code for one in tenants_own}
    assert {name: status for name, status in tried.items() if status in (401, 403) or status >= 500} == {}


@pytest.mark.parametrize("key", [None, "ffk_000000000000_" + "a" * 43])
def test_without_a_key_there_is_nothing(api: Api, operations: list[Operation], theirs: dict[str, str], key: str | None) -> None:
    nobody = api.client(key)
    answers = {str(one): one.send(nobody, theirs) for one in operations}
    refused = {name for name, answer in answers.items() if answer.status_code == 401}
    assert refused == answers.keys() - OPEN
    assert all("WWW-Authenticate" in answers[name].headers for name in refused)
    assert {answers[name].status_code for name in OPEN} == {200}
    assert nobody.get("/openapi.json").status_code == 200
