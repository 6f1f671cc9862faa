"""What one process counts, for Prometheus. Each process has its own registry; there is nothing global."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from orchestrator.runs.models import ModelUsage

MAX_VALUES = 200
"""Different values of one label; what comes later is `other`. Names of tools and models come from outside."""
OTHER = "other"
MOMENTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bounds in seconds for what should take no time: requests, sandboxes that start."""
CIRCUITS = ("closed", "half-open", "open")
"""The states of a provider's breaker, in the order of their numbers."""
SPANS = (0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400)
"""Bounds in seconds for runs, and for how long they wait."""


class Metrics:
    """Counts what happens in this process. Safe to use from many threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="fanfold", registry=self.registry)
        self._lock = threading.Lock()
        self._seen: dict[str, set[str]] = {}
        self._runs = self._histogram("run_duration", "Time from the first begin of a run to its end.", SPANS, "status")
        self._latency = self._histogram("run_start_latency", "Time from the submission of a run to its first begin.", SPANS)
        self._sandboxes = self._histogram("sandbox_start", "Time for making a sandbox.", MOMENTS, "provider")
        self._failures = self._counter("sandbox_failures", "Sandboxes that were asked for and not given.", "provider")
        self._requests = self._histogram(
            "http_request_duration", "Time of requests until their answers began.", MOMENTS, "method", "route", "status"
        )
        self._lease_losses = self._counter("lease_losses", "Runs that this worker lost to another one.")
        self._reaped = self._counter("sandboxes_reaped", "Sandboxes that had lost their run and were destroyed.", "provider")
        self._circuits = Gauge(
            "fanfold_provider_circuit",
            "How this worker treats a provider: 0 uses it, 1 lets one run try it, 2 leaves it alone.",
            ["provider"],
            registry=self.registry,
        )
        self._model_calls = self._counter("model_calls", "Calls of models that have ended.", "model")
        self._tokens = self._counter("model_tokens", "Tokens that models have read and made.", "tenant", "model", "kind")
        self._cost = self._counter("model_cost_usd", "Cost of calls of models that have a price.", "tenant", "model")
        self._tool_calls = self._counter("tool_calls", "Calls of tools that have ended.", "tool", "status")

    def _histogram(self, name: str, told: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"fanfold_{name}_seconds", told, labels, buckets=bounds, registry=self.registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"fanfold_{name}_total", told, labels, registry=self.registry)

    def add(self, collector: Collector) -> None:
        """Show what `collector` finds as well, each time somebody asks."""
        self.registry.register(collector)

    def render(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry)

    # Runs

    def run_started(self, waited: float) -> None:
        """A run has begun for the first time, `waited` seconds after it was submitted."""
        self._latency.observe(max(0.0, waited))

    def run_finished(self, status: str, seconds: float) -> None:
        """A run has ended, `seconds` after it first began."""
        self._runs.labels(status).observe(max(0.0, seconds))

    def lease_lost(self) -> None:
        """Another worker has taken over a run of ours."""
        self._lease_losses.inc()

    # Sandboxes

    @contextmanager
    def sandbox_starting(self, provider: str) -> Iterator[None]:
        """Around the making of a sandbox. One that fails counts as that alone; one that is called off does not count."""
        began = perf_counter()
        try:
            yield
        except Exception:
            self.sandbox_failed(provider)
            raise
        self._sandboxes.labels(self._bounded("provider", provider)).observe(perf_counter() - began)

    def sandbox_failed(self, provider: str) -> None:
        """A provider was asked for a sandbox and did not give it."""
        self._failures.labels(self._bounded("provider", provider)).inc()

    def sandbox_reaped(self, provider: str) -> None:
        """A sandbox without a run was destroyed."""
        self._reaped.labels(self._bounded("provider", provider)).inc()

    def watch_circuit(self, provider: str, state: Callable[[], str]) -> None:
        """Tell how the breaker of a provider is whenever somebody looks: `closed`, `half-open` or `open`."""
        self._circuits.labels(self._bounded("provider", provider)).set_function(lambda: CIRCUITS.index(state()))

    # Agents

    def models_used(self, tenant: str, used: Iterable[ModelUsage]) -> None:
        """Calls of models have ended; each is what they used of one model."""
        whose = self._bounded("tenant", tenant)
        for one in used:
            model = self._bounded("model", one.model or "unknown")
            self._model_calls.labels(model).inc(one.calls)
            counts = {
                "input": one.input_tokens,
                "output": one.output_tokens,
                "cache_read": one.cache_read_tokens,
                "cache_write": one.cache_write_tokens,
            }
            for kind, count in counts.items():
                self._tokens.labels(whose, model, kind).inc(count)
            if one.cost_micros:
                self._cost.labels(whose, model).inc(one.cost_micros / 1_000_000)

    def happened(self, kind: str, data: Mapping[str, Any]) -> None:
        """An event of a run was recorded: what of it is counted here, is."""
        if kind == "tool.result":
            tool = self._bounded("tool", str(data.get("name") or "unknown"))
            self._tool_calls.labels(tool, "error" if data.get("status") == "error" else "success").inc()

    # Requests

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the path of the route, never that of the request."""
        self._requests.labels(self._bounded("method", method), self._bounded("route", route), str(status)).observe(seconds)

    def _bounded(self, label: str, value: str) -> str:
        with self._lock:
            seen = self._seen.setdefault(label, set())
            if value in seen:
                return value
            if len(seen) >= MAX_VALUES:
                return OTHER
            seen.add(value)
            return value
