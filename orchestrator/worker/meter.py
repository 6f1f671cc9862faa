"""Adding up what one attempt uses: tokens by agent and model, and the time of its sandbox."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.runs.models import ModelUsage
from orchestrator.runs.prices import PriceTable

MAX_NAME = 200
"""Characters of an agent's or a model's name in the record."""
MAX_TOKENS = 1_000_000_000
"""Tokens that one call is believed to have used: a provider may tell anything."""


class Meter:
    """Of one attempt. `spent` may be called from any thread."""

    def __init__(self, number: int, prices: PriceTable) -> None:
        self._seconds = 0.0
        self._entered: float | None = None
        self._number = number
        self._prices = prices
        self._lock = threading.Lock()
        self._listener: Callable[[], None] = lambda: None
        self._sums: dict[tuple[str, str], Counter[str]] = {}

    def spent(self, agent: str, model: str, tokens: Mapping[str, Any]) -> None:
        """Count one call of a model; `tokens` has the keys of langchain's `UsageMetadata`."""
        details = tokens.get("input_token_details") or {}
        counts = {
            "calls": 1,
            "input": tokens.get("input_tokens"),
            "output": tokens.get("output_tokens"),
            "read": details.get("cache_read"),
            "write": details.get("cache_creation"),
        }
        with self._lock:
            sums = self._sums.setdefault((agent[:MAX_NAME], model[:MAX_NAME]), Counter())
            sums.update({name: min(max(0, int(value or 0)), MAX_TOKENS) for name, value in counts.items()})
        self._listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this after each call of a model, in the thread of that call."""
        self._listener = listener

    def enter(self) -> None:
        """From now on there is a sandbox. When there is one already, that goes on."""
        if self._entered is None:
            self._entered = time.monotonic()

    def leave(self) -> None:
        """From now on there is none, or it is another attempt's."""
        if self._entered is not None:
            self._seconds += time.monotonic() - self._entered
            self._entered = None

    @property
    def sandbox_seconds(self) -> float:
        """How long there has been a sandbox."""
        return self._seconds + (time.monotonic() - self._entered if self._entered is not None else 0.0)

    def take(self) -> list[ModelUsage]:
        """What each agent has used of each model since the last time, and what it costs."""
        with self._lock:
            sums, self._sums = self._sums, {}
        return [self._of(agent, model, counts) for (agent, model), counts in sorted(sums.items())]

    def _of(self, agent: str, model: str, sums: Counter[str]) -> ModelUsage:
        cost = self._prices.cost(
            model, given=sums["input"], made=sums["output"], cache_read=sums["read"], cache_write=sums["write"]
        )
        return ModelUsage(
            attempt=self._number,
            agent=agent,
            model=model,
            calls=sums["calls"],
            input_tokens=sums["input"],
            output_tokens=sums["output"],
            cache_read_tokens=sums["read"],
            cache_write_tokens=sums["write"],
            cost_micros=cost,
        )
