"""Sums of what an attempt uses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from orchestrator.runs.models import ModelUsage
from orchestrator.runs.prices import ModelPrice, PriceTable
from orchestrator.worker.meter import MAX_NAME, MAX_TOKENS, Meter

PRICES = PriceTable(models={"openai:*": ModelPrice(input=1, output=2, cache_read=0)})


def test_calls_are_added_up_by_agent_and_model() -> None:
    meter = Meter(3, PRICES)
    cached = {"input_tokens": 100, "output_tokens": 10, "input_token_details": {"cache_read": 60, "cache_creation": 5}}
    meter.spent("", "openai:x", cached)
    meter.spent("", "openai:x", {"input_tokens": 1, "output_tokens": 1})
    meter.spent("finder", "fake", {})
    assert meter.take() == [
        ModelUsage(3, "", "openai:x", 2, 101, 11, 60, 5, 63),
        ModelUsage(3, "finder", "fake", 1, 0, 0, 0, 0, None),
    ]


def test_calls_may_end_in_many_threads_at_once() -> None:
    meter = Meter(1, PRICES)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(400):
            pool.submit(meter.spent, "", "openai:x", {"input_tokens": 2, "output_tokens": 1})
    assert [(one.calls, one.input_tokens, one.output_tokens) for one in meter.take()] == [(400, 800, 400)]


def test_what_a_provider_tells_may_be_odd() -> None:
    meter = Meter(1, PRICES)
    meter.spent("a" * 1000, "m" * 1000, {"input_tokens": 10**30, "output_tokens": -5, "input_token_details": None})
    (one,) = meter.take()
    assert (len(one.agent), len(one.model), one.input_tokens, one.output_tokens) == (MAX_NAME, MAX_NAME, MAX_TOKENS, 0)


def test_only_the_time_of_the_sandbox_counts() -> None:
    meter = Meter(1, PRICES)
    meter.leave()
    assert meter.sandbox_seconds == 0.0
    meter.enter()
    meter.enter()
    so_far = meter.sandbox_seconds
    assert so_far > 0.0
    meter.leave()
    ended = meter.sandbox_seconds
    assert ended > so_far
    assert meter.sandbox_seconds == ended
