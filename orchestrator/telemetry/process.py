"""What a process is observed by, from its start to its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from opentelemetry.util.types import AttributeValue
from prometheus_client import start_http_server

from orchestrator.errors import BadInput
from orchestrator.runs.models import Run
from orchestrator.settings import Settings
from orchestrator.telemetry.logs import configure_logs, log_context
from orchestrator.telemetry.metrics import Metrics
from orchestrator.telemetry.redaction import Masks
from orchestrator.telemetry.traces import configure_traces, continue_trace, span

logger = logging.getLogger(__name__)

SERVING = ("worker", "controller")
"""Roles that serve their metrics at an address of their own; the API has a route for them."""


@dataclass(frozen=True)
class Telemetry:
    """Is handed to whoever has something to tell. One that is made without arguments tells nobody."""

    metrics: Metrics = field(default_factory=Metrics)
    masks: Masks = field(default_factory=Masks)

    @contextmanager
    def run(self, run: Run) -> Iterator[None]:
        """Around all that a worker does for a run that it has claimed: its logs name it, its spans belong to its trace.

        What is held of `masks` under the run's id is let go at the end.
        """
        told: dict[str, AttributeValue] = {"fanfold.run": run.id, "fanfold.tenant": run.tenant, "fanfold.attempt": run.attempt}
        try:
            with (
                log_context(run=run.id, attempt=run.attempt, tenant=run.tenant),
                continue_trace(run.traceparent),
                span("run", told),
            ):
                yield
        finally:
            self.masks.let_go(run.id)


@contextmanager
def observed(settings: Settings, role: str, metrics: Metrics | None = None) -> Iterator[Telemetry]:
    """Observe this process until the end of the block: its logs are configured, its spans are sent, its metrics served.

    `role` is what it does: `worker`, `controller`, `api` and so on. `metrics` are `Service.metrics` in a process that works and
    serves the API as well. Raises `BadInput` when that is not possible as it was asked.
    """
    telemetry = Telemetry(metrics or Metrics())
    with ExitStack() as stack:
        stack.enter_context(telemetry.masks.hiding(_secrets_of(settings)))
        configure_logs(settings, telemetry.masks)
        stack.callback(configure_traces(role))
        if settings.metrics_addr and role in SERVING:
            stack.enter_context(served(telemetry.metrics, settings.metrics_addr))
        yield telemetry


@contextmanager
def served(metrics: Metrics, address: str) -> Iterator[str]:
    """Serve metrics at `HOST:PORT` (no host: everywhere; port 0: any), from a thread, until the end of the block; their URL.

    Raises `BadInput` when the address cannot be had.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "0.0.0.0"  # noqa: S104 - as asked
    try:
        server, thread = start_http_server(int(port), host, metrics.registry)
    except (OSError, OverflowError) as exc:
        raise BadInput(f"FANFOLD_METRICS_ADDR: metrics cannot be served at {address}: {exc}") from exc
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    logger.info("metrics at %s", url)
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _secrets_of(settings: Settings) -> list[str]:
    """What the process itself must not tell. Passwords in addresses are known by their form."""
    return settings.secret_key.get_secret_value().split(",") if settings.secret_key else []
