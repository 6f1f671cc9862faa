"""A broker at an address with a password that needs escaping, and with a database of its own: everybody finds it there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
import redis

from orchestrator.api.limits import PREFIX, RateLimits
from orchestrator.cli.checks import _redis as doctor
from orchestrator.errors import InfrastructureError, QuotaExceeded
from orchestrator.queue import make_app, nothing_queued, send_execute_run
from orchestrator.wake import WAITS, Bell
from tests.servers import PASSWORD, REDIS_DATABASE, redis_server

SECONDS = 30


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with redis_server() as (address, _):
        yield address


@pytest.fixture
def there(url: str) -> Iterator[redis.Redis]:
    """The database that the address names."""
    port = urlsplit(url).port or 0
    with redis.Redis(port=port, password=PASSWORD, db=REDIS_DATABASE) as client:
        yield client
        client.config_set("maxmemory", "0")
        client.flushall()


def wrong(url: str, kind: str) -> str:
    """The address with one mistake."""
    before, _, after = url.rpartition("@")
    return {
        "another password": f"redis://:{quote('some#thing', safe='')}@{after}",
        "no password": f"redis://{after}",
        "no such database": f"{before}@{after.partition('/')[0]}/99",
    }[kind]


def test_runs_are_queued_there(url: str, there: redis.Redis) -> None:
    app = make_app(url)
    assert nothing_queued(app)
    send_execute_run(app, "run-1")
    assert not nothing_queued(app)
    app.close()
    assert there.llen("fanfold") == 1


def test_the_bell_is_heard_there(url: str) -> None:
    listener, ringer, heard = Bell(url, WAITS), Bell(url, WAITS), threading.Semaphore(0)
    try:
        listener.listen(lambda _: heard.release())
        assert heard.acquire(timeout=SECONDS), "who begins to listen looks at once"
        ringer.ring()
        assert heard.acquire(timeout=SECONDS)
    finally:
        listener.close()
        ringer.close()


def test_requests_are_counted_there(url: str, there: redis.Redis) -> None:
    one, other = RateLimits(url), RateLimits(url)
    one.take("acme", 2)
    other.take("acme", 2)
    with pytest.raises(QuotaExceeded):
        one.take("acme", 2)
    assert there.exists(f"{PREFIX}acme")
    one.close()
    other.close()


def test_an_address_of_a_socket_may_name_a_database_too() -> None:
    limits = RateLimits("redis+socket:///nowhere/valkey.sock?virtual_host=2")
    limits.take("acme", 2)  # it is not there, which is no error; nor is how its address is written
    limits.close()


def test_the_doctor_finds_it_and_says_no_password(url: str) -> None:
    found = doctor(url)
    assert (found.state, "p%40ss" in found.found) == ("ok", False)


@pytest.mark.parametrize("kind", ["another password", "no password", "no such database"])
def test_an_address_with_a_mistake_is_an_error_that_says_so_and_no_password(url: str, kind: str) -> None:
    address = wrong(url, kind)
    app, bell = make_app(address), Bell(address, WAITS)
    for use in (lambda: send_execute_run(app, "run-1"), lambda: nothing_queued(app), bell.ring):
        with pytest.raises(InfrastructureError, match="check FANFOLD_REDIS_URL") as caught:
            use()
        assert "thing" not in str(caught.value)
    app.close()
    bell.close()
    RateLimits(address).take("acme", 1)
    assert doctor(address).state == "missing"


def test_a_broker_that_is_full_is_an_error_that_says_so(url: str, there: redis.Redis) -> None:
    there.config_set("maxmemory", "1mb")
    app = make_app(url)
    for use in (lambda: send_execute_run(app, "run-1"), lambda: nothing_queued(app)):
        with pytest.raises(InfrastructureError, match="maxmemory"):
            use()
    app.close()
