"""Tenants ask as often as they may, whichever process of the API they ask."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.api.limits import RateLimits
from orchestrator.broker import Broker
from orchestrator.errors import QuotaExceeded
from orchestrator.settings import Settings


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="ff-") as home:
        started = Broker(Settings(home=Path(home)))
        started.ensure()
        yield started
        started.stop()


def allowed(limits: RateLimits, tenant: str, a_minute: int, asked: int) -> int:
    count = 0
    for _ in range(asked):
        with suppress(QuotaExceeded):
            limits.take(tenant, a_minute)
            count += 1
    return count


def test_processes_share_a_tenants_limit(broker: Broker) -> None:
    one, two = RateLimits(broker.url), RateLimits(broker.url)
    assert allowed(one, "shared", 4, 3) == 3
    assert allowed(two, "shared", 4, 5) == 1
    assert allowed(one, "other", 4, 4) == 4
    one.close()
    two.close()


def test_who_is_refused_is_told_when_to_ask_again(broker: Broker) -> None:
    limits = RateLimits(broker.url)
    assert allowed(limits, "eager", 4, 4) == 4
    with pytest.raises(QuotaExceeded) as refused:
        limits.take("eager", 4)
    assert 0 < refused.value.retry_after <= 15
    limits.close()


def test_without_a_limit_the_broker_is_not_asked() -> None:
    RateLimits("redis+socket:///nowhere/valkey.sock").take("acme", None)


@pytest.mark.parametrize("url", ["redis+socket:///nowhere/valkey.sock", "redis://127.0.0.1:9/0", "amqp://nowhere", "memory://"])
def test_without_the_broker_each_process_counts_on_its_own(url: str) -> None:
    one, two = RateLimits(url), RateLimits(url)
    assert allowed(one, "acme", 3, 5) == 3
    assert allowed(two, "acme", 3, 5) == 3
    assert allowed(one, "other", 3, 1) == 1
    one.close()
    two.close()
