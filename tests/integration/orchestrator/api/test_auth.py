"""Keys open what they say, for their tenant, until they end."""

from __future__ import annotations

import httpx
import pytest

from tests.served import Api


def test_without_a_key_there_is_a_challenge(api: Api) -> None:
    answer = api.client(None).get("/v1/me")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "Unauthorized"


@pytest.mark.parametrize("text", ["x", "nonsense", "ffk_000000000000_" + "a" * 43, "ffk_"])
def test_a_key_that_nobody_made_opens_nothing(api: Api, text: str) -> None:
    answer = api.client(None).get("/v1/me", headers={"Authorization": f"Bearer {text}"})
    assert answer.status_code == 401


def test_the_secret_part_of_a_key_counts(api: Api) -> None:
    wrong = api.key[:-1] + ("a" if api.key[-1] != "a" else "b")
    assert api.client(wrong).get("/v1/me").status_code == 401


def test_a_key_tells_whose_it_is(api: Api) -> None:
    me = api.of("acme", "runs:read", "runs:write").get("/v1/me").json()
    assert (me["tenant"], me["scopes"]) == ("acme", ["runs:read", "runs:write"])


def test_a_key_without_the_scope_is_refused(api: Api) -> None:
    reader = api.of("acme", "runs:read")
    answer = reader.post("/v1/runs", json={"task": {"command": "true"}})
    assert (answer.status_code, "runs:write" in answer.json()["detail"]) == (403, True)
    assert reader.get("/v1/keys").status_code == 403
    assert reader.get("/v1/runs").status_code == 200


def test_admin_implies_the_other_scopes(api: Api) -> None:
    assert api.of("acme", "admin").get("/v1/runs").status_code == 200


def test_a_key_is_made_listed_and_revoked(api: Api, client: httpx.Client) -> None:
    made = client.post("/v1/keys", json={"name": "ci", "scopes": ["runs:read"], "expires_in": 3600}).json()
    own = api.client(made["key"])
    assert own.get("/v1/me").json()["key_id"] == made["id"]
    listed = next(key for key in client.get("/v1/keys").json()["items"] if key["id"] == made["id"])
    assert "key" not in listed
    assert listed["used_at"] is not None
    revoked = client.delete(f"/v1/keys/{made['id']}")
    assert revoked.json()["revoked_at"] is not None
    assert own.get("/v1/me").status_code == 401


def test_nobody_revokes_anothers_key(api: Api, client: httpx.Client) -> None:
    theirs = api.of("acme").get("/v1/me").json()["key_id"]
    assert client.delete(f"/v1/keys/{theirs}").status_code == 404
    assert theirs not in [key["id"] for key in client.get("/v1/keys").json()["items"]]


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "", "scopes": ["admin"]},
        {"name": "x", "scopes": ["admin"], "expires_in": 0},
        {"name": "x", "scopes": ["admin"], "tenant": "acme"},
    ],
)
def test_an_impossible_key_is_not_made(client: httpx.Client, body: dict[str, object]) -> None:
    answer = client.post("/v1/keys", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"].startswith("body.")


def test_only_the_operator_sees_tenants(api: Api, client: httpx.Client) -> None:
    assert api.of("acme").get("/v1/tenants").status_code == 403
    assert api.of("default", "runs:write").get("/v1/tenants").status_code == 403
    assert "acme" in [tenant["id"] for tenant in client.get("/v1/tenants").json()["items"]]


def test_a_tenants_limits_are_set_as_a_whole(client: httpx.Client) -> None:
    first = client.put("/v1/tenants/limited", json={"max_running": 3, "weight": 2})
    assert (first.status_code, first.json()["max_running"], first.json()["weight"]) == (200, 3, 2.0)
    second = client.put("/v1/tenants/limited", json={"max_queued": 5}).json()
    assert (second["max_running"], second["max_queued"], second["weight"]) == (None, 5, 1.0)
    assert client.get("/v1/tenants/limited").json() == second
    assert client.get("/v1/tenants/limited/usage").json()["runs"] == 0
    assert client.get("/v1/tenants/nobody").status_code == 404
    assert client.put("/v1/tenants/Not-A-Name", json={}).status_code == 422


def test_a_tenant_that_asks_too_often_has_to_wait(api: Api, client: httpx.Client) -> None:
    eager = api.of("eager")
    client.put("/v1/tenants/eager", json={"max_requests": 5})
    answers = [eager.get("/v1/me") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 12
    assert client.get("/v1/me").status_code == 200
