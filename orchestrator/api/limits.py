"""How often a tenant may ask: a bucket of tokens for each, which fills evenly and holds a minute's worth.

The buckets are in the broker, so that all processes of the API share them. Only tenants with a limit cost a question to it.
While the broker does not answer, each process counts on its own: a limit is then as often as there are processes.
"""

from __future__ import annotations

import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from orchestrator.errors import QuotaExceeded
from orchestrator.wake import client_url

if TYPE_CHECKING:
    from redis import Redis

MINUTE = 60.0
TIMEOUT = 0.5
"""Seconds for the broker to answer."""
PAUSE = 5.0
"""Seconds for which a broker that did not answer is not asked again."""
PREFIX = "fanfold:requests:"
"""Of the buckets' names in the broker."""
MAX_BUCKETS = 10_000
"""Buckets that a process counts on its own; beyond them it begins anew."""

# The broker's own clock counts: those of the API's machines differ. The answer is the seconds to wait, 0 when there was one.
_TAKE = """
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local full = tonumber(ARGV[1])
local rate = full / 60
local old = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = full
if old[1] then left = math.min(full, tonumber(old[1]) + math.max(0, now - tonumber(old[2])) * rate) end
local wait = 0
if left >= 1 then left = left - 1 else wait = (1 - left) / rate end
redis.call('HSET', KEYS[1], 'left', tostring(left), 'at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], 120)
return tostring(wait)
"""


class RateLimits:
    """Safe to use from many threads."""

    def __init__(self, broker_url: str) -> None:
        """`broker_url` as kombu writes it."""
        self._url = client_url(broker_url)
        self._lock = threading.Lock()
        self._own: dict[str, tuple[float, float]] = {}
        self._ask_again = 0.0

    def take(self, tenant: str, a_minute: int | None) -> None:
        """Count a request. Raises `QuotaExceeded` when the tenant has had as many as it may; None is no limit."""
        if a_minute is None:
            return
        wait = self._shared(tenant, a_minute)
        if wait is None:
            wait = self._alone(tenant, a_minute)
        if wait > 0:
            raise QuotaExceeded(
                f"tenant '{tenant}' may ask {a_minute} times a minute; ask again in {wait:.0f} s", retry_after=wait
            )

    def close(self) -> None:
        """Let go of the connections."""
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> Redis:
        from redis import Redis

        assert self._url is not None
        return Redis.from_url(self._url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)

    @cached_property
    def _script(self) -> Any:
        return self._client.register_script(_TAKE)

    def _shared(self, tenant: str, full: int) -> float | None:
        """Seconds to wait; None when the broker cannot tell."""
        from redis import RedisError

        if self._url is None or time.monotonic() < self._ask_again:
            return None
        try:
            return float(self._script(keys=[PREFIX + tenant], args=[full]))
        except (RedisError, OSError, ValueError):  # ValueError: the address makes no sense
            self._ask_again = time.monotonic() + PAUSE
            return None

    def _alone(self, tenant: str, full: int) -> float:
        rate, moment = full / MINUTE, time.monotonic()
        with self._lock:
            if len(self._own) >= MAX_BUCKETS:
                self._own.clear()
            left, at = self._own.get(tenant, (float(full), moment))
            left = min(float(full), left + (moment - at) * rate)
            wait = 0.0 if left >= 1 else (1 - left) / rate
            self._own[tenant] = (left - 1 if left >= 1 else left, moment)
        return wait
