"""A circuit breaker for each provider: one that is away is left alone for a while, instead of being asked by run after run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from orchestrator.policy import Policy
from orchestrator.providerrules import BreakerRule
from orchestrator.telemetry.metrics import Metrics
from sandboxes.errors import NotAuthenticated, ProviderUnavailable, RateLimited

LONGEST = 3600.0
"""Seconds that a platform can ask to be left alone; it may say anything."""
TRIAL_POLL = 0.5
"""Seconds until it is worth looking again how the one run fares that may try."""


class Circuit(StrEnum):
    """The states of a breaker."""

    CLOSED = "closed"
    HALF_OPEN = "half-open"
    OPEN = "open"


class LeftAlone(ProviderUnavailable):
    """The breaker lets nobody try now. `wait`: seconds until it is worth asking again."""

    def __init__(self, message: str, wait: float) -> None:
        super().__init__(message)
        self.wait = wait


class Breaker:
    """Of one provider in one worker. Used on one event loop; its state may be read from any thread."""

    def __init__(self, provider: str, rule: BreakerRule, clock: Callable[[], float] = time.monotonic) -> None:
        self._provider, self._rule, self._clock = provider, rule, clock
        self._failures: deque[float] = deque(maxlen=rule.failures)
        """Moments of the outages in a row."""
        self._until: float | None = None
        """When the next try is due, since it has opened; None while it is closed."""
        self._trial = False
        self._last = ""

    @property
    def state(self) -> Circuit:
        """How it is now."""
        if self._until is None:
            return Circuit.CLOSED
        return Circuit.OPEN if self._clock() < self._until else Circuit.HALF_OPEN

    @property
    def rest(self) -> float:
        """Seconds until it may be tried again; 0 when it may be now."""
        return max(0.0, self._until - self._clock()) if self._until is not None else 0.0

    def check(self) -> None:
        """Raise `LeftAlone` when the provider is not to be tried now."""
        if (wait := self.rest) > 0:
            raise LeftAlone(f"left alone for {wait:.1f} s more, after it was away: {self._last}", wait)
        if self._trial:
            raise LeftAlone(f"left alone while one run tries whether it is back; it was away: {self._last}", TRIAL_POLL)

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Around the making of a sandbox. Raises `LeftAlone` when it is not to be tried now.

        Whatever says nothing about the platform (a spec that it refuses, a key that it does not know) changes nothing.
        """
        self.check()
        trial = self.state is Circuit.HALF_OPEN
        self._trial = self._trial or trial
        try:
            yield
        except ProviderUnavailable as exc:
            self.failed(exc)
            raise
        else:
            self._failures.clear()
            self._until = None
        finally:
            if trial:
                self._trial = False

    def failed(self, outage: ProviderUnavailable) -> None:
        """Count an outage. One that says when to come again opens the breaker at once."""
        if isinstance(outage, NotAuthenticated):
            return
        moment, self._last = self._clock(), str(outage)
        self._failures.append(moment)
        asked = outage.retry_after if isinstance(outage, RateLimited) else None
        if asked is not None:
            self._open(min(max(asked, 0.0), LONGEST))
        elif self.state is Circuit.HALF_OPEN or self._too_many(moment):
            self._open(self._rule.cool_down)

    def _too_many(self, moment: float) -> bool:
        return len(self._failures) == self._rule.failures and moment - self._failures[0] <= self._rule.window

    def _open(self, seconds: float) -> None:
        self._until = max(self._until or 0.0, self._clock() + seconds)


class Breakers:
    """Those of a worker, by provider; each is made when it is first asked for."""

    def __init__(self, policy: Policy, metrics: Metrics) -> None:
        self._policy, self._metrics = policy, metrics
        self._known: dict[str, Breaker] = {}

    def of(self, provider: str) -> Breaker:
        """The breaker of this provider."""
        if provider not in self._known:
            made = self._known[provider] = Breaker(provider, self._policy.rule(provider).breaker)
            self._metrics.watch_circuit(provider, lambda: made.state)
        return self._known[provider]
