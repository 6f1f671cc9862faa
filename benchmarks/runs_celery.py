"""The least that a queue can do: a Celery task that tells when it began, on the broker of an installation that is measured.

    python -m benchmarks.runs_celery ADDRESS CONCURRENCY      # its worker
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from celery import Celery
from redis import Redis

from benchmarks.measure import MILLISECONDS
from benchmarks.runs_world import World, started, wait_until
from orchestrator.wake import client_url

QUEUE = "benchmark"
TASK = "benchmark.noop"
BEGUN = "benchmark:begun"
"""A list of the broker: when each task began, in seconds since 1970."""
ANSWER_TIMEOUT = 60
"""Seconds for a task to begin."""


def make_app(broker_url: str) -> Celery:
    """The application, set as ours is where that costs time: tasks are acknowledged late, one is fetched at a time."""
    app = Celery("benchmark", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    return app


class Bare:
    """Sends tasks, and hears when they began."""

    def __init__(self, broker_url: str) -> None:
        self._app = make_app(broker_url)
        self._redis: Any = _redis(broker_url)

    def latency(self) -> float:
        """Milliseconds from before a task is sent to its beginning."""
        began = time.time()
        self._send()
        return (self._heard() - began) * MILLISECONDS

    def each_of(self, count: int) -> float:
        """Milliseconds that each of so many tasks takes, sent one after the other, until the last one has begun."""
        began = time.perf_counter()
        for _ in range(count):
            self._send()
        for _ in range(count):
            self._heard()
        return (time.perf_counter() - began) / count * MILLISECONDS

    def median_latency(self, samples: int) -> float:
        """The median of the latencies of so many tasks."""
        return statistics.median(self.latency() for _ in range(samples))

    def _send(self) -> None:
        self._app.send_task(TASK, queue=QUEUE)

    def _heard(self) -> float:
        found = self._redis.blpop([BEGUN], timeout=ANSWER_TIMEOUT)
        if found is None:
            raise RuntimeError(f"no Celery task began within {ANSWER_TIMEOUT} s")
        return float(found[1])

    def close(self) -> None:
        """Let go of the broker."""
        self._redis.close()
        self._app.close()


@contextmanager
def bare(world: World, *, workers: int, concurrency: int) -> Iterator[Bare]:
    """As many workers as the installation has, of as many threads."""
    with ExitStack() as stack:
        url = world.service.broker_url
        command = [sys.executable, "-m", "benchmarks.runs_celery", url, str(concurrency)]
        for _ in range(workers):
            stack.enter_context(started(command, world.settings.home, {}))
        found = Bare(url)
        stack.callback(found.close)
        wait_until(lambda: found.latency() > 0, "a Celery task begins")
        yield found


def _redis(broker_url: str) -> Any:
    address = client_url(broker_url)
    assert address is not None, "the broker of a benchmark is Redis or Valkey"
    return Redis.from_url(address, socket_timeout=ANSWER_TIMEOUT * 2)


def main(broker_url: str, concurrency: int) -> None:
    """Be a worker, until a signal."""
    app, redis = make_app(broker_url), _redis(broker_url)

    def noop() -> None:
        redis.rpush(BEGUN, repr(time.time()))

    app.task(name=TASK)(noop)
    options = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True, "quiet": True}
    app.Worker(pool="threads", concurrency=concurrency, loglevel="WARNING", **options).start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
