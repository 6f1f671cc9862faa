"""Keys of the API and tenants, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine

from orchestrator.errors import NotFound
from orchestrator.runs.keys import USED_AT_STEP, ApiKey, Keys
from orchestrator.runs.models import ModelUsage, NewRun
from orchestrator.runs.store import Store
from orchestrator.runs.tenants import Limits, Tenants


@pytest.fixture
def keys(engine: Engine, clock: Callable[..., object]) -> Keys:
    return Keys(engine, clock)  # type: ignore[arg-type]


def add(keys: Keys, name: str = "000000000001", **more: object) -> ApiKey:
    options = {"tenant": "acme", "name": "ci", "scopes": ("runs:read",), **more}
    return keys.add(f"key-{name}", "digest", **options)  # type: ignore[arg-type]


def test_a_key_is_known_with_its_tenant(keys: Keys, engine: Engine) -> None:
    made = add(keys, scopes=["runs:write", "admin"])
    Tenants(engine).set("acme", Limits(max_requests=7))
    known = keys.known(made.id)
    assert known is not None
    assert (known.key, known.digest) == (made, "digest")
    assert (known.key.scopes, known.tenant.id, known.tenant.limits.max_requests) == (("admin", "runs:write"), "acme", 7)
    assert keys.known("key-000000000002") is None


def test_an_expired_key_is_not_known(keys: Keys, clock: Callable[..., object]) -> None:
    made = add(keys, expires_in=60)
    clock.advance(59)  # type: ignore[attr-defined]
    assert keys.known(made.id) is not None
    clock.advance(2)  # type: ignore[attr-defined]
    assert keys.known(made.id) is None
    assert [key.id for key in keys.all("acme")] == [made.id]


def test_a_revoked_key_is_not_known_and_stays_revoked(keys: Keys, clock: Callable[..., object]) -> None:
    made = add(keys)
    revoked = keys.revoke("acme", made.id)
    assert keys.known(made.id) is None
    clock.advance(60)  # type: ignore[attr-defined]
    assert keys.revoke("acme", made.id) == revoked


def test_anothers_key_is_not_there(keys: Keys) -> None:
    made = add(keys)
    for attempt in (keys.get, keys.revoke):
        with pytest.raises(NotFound, match=made.id):
            attempt("other", made.id)
    assert keys.all("other") == []
    assert keys.known(made.id) is not None


def test_use_is_noted_once_a_minute(keys: Keys, clock: Callable[..., object]) -> None:
    made = add(keys)
    keys.note_use(made)
    first = keys.get("acme", made.id).used_at
    keys.note_use(made)
    keys.note_use(keys.get("acme", made.id))
    assert keys.get("acme", made.id).used_at == first
    clock.advance(USED_AT_STEP + 1)  # type: ignore[attr-defined]
    keys.note_use(keys.get("acme", made.id))
    assert keys.get("acme", made.id).used_at != first


def test_two_keys_at_once_make_one_tenant(keys: Keys, engine: Engine) -> None:
    barrier = threading.Barrier(8)

    def make(number: int) -> None:
        barrier.wait()
        add(keys, f"{number:012x}", tenant="fresh")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))
    assert len(keys.all("fresh")) == 8
    assert [tenant.id for tenant in Tenants(engine).all()] == ["default", "fresh"]


def test_limits_are_set_as_a_whole(engine: Engine) -> None:
    tenants = Tenants(engine)
    limits = Limits(weight=2.5, max_running=1, max_queued=2, max_tokens=10**12, max_cost_micros=10**12, max_sandbox_seconds=1.5)
    assert tenants.set("acme", limits).limits == limits
    assert tenants.set("acme", Limits()).limits == Limits()
    assert tenants.get("default").limits == Limits()
    with pytest.raises(NotFound, match="nobody"):
        tenants.get("nobody")


def test_what_a_tenant_used_is_summed_over_its_runs(engine: Engine) -> None:
    store, tenants = Store(engine), Tenants(engine)
    tenants.set("acme", Limits())
    usage = ModelUsage(1, "", "openai:x", 1, 100, 20, 0, 0, 3000)
    for number, tenant in enumerate(("acme", "acme", "default")):
        run = store.add(NewRun(f"run-{number:012x}", "x", {"command": "true"}, tenant=tenant))
        lease = store.claim(run.id, "w")
        assert lease is not None
        store.add_usage(lease, 1, [usage])
        store.record_time(lease, 1, 2.5)
    used = tenants.usage("acme")
    assert (used.runs, used.input_tokens, used.output_tokens, used.cost_micros, used.sandbox_seconds) == (2, 200, 40, 6000, 5.0)
    assert (used.month.tokens, used.month.cost_micros, used.month.sandbox_seconds) == (240, 6000, 5.0)
    with pytest.raises(NotFound):
        tenants.usage("nobody")
