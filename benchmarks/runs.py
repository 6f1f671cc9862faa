"""`python -m benchmarks.runs`: what the orchestration of a run costs, beside bare Celery tasks and the free LangGraph server.

A run that does nothing is a command run of `true` in a local sandbox of its own, or an agent run whose scripted model answers
at once. Each is measured on SQLite with the embedded broker, and on PostgreSQL with Redis where their programs are installed.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import httpx

from benchmarks.measure import MILLISECONDS, Config, Row, run
from benchmarks.runs_celery import Bare, bare
from benchmarks.runs_langgraph import RUN, langgraph_dev
from benchmarks.runs_world import ANSWER, TIMEOUT, World, agent_task, can_serve, command_task, ok, world
from orchestrator.service.orders import RunOrder

WORKERS = 2
"""Where there are several."""
CONCURRENCY = 16
"""Runs at once of each worker, ours and Celery's."""
SAMPLES = 30
AT_ONCE = 300
SUBMITS = 500
QUICK_AT_ONCE = 4
CLIENTS = 16
"""Requests at once where submits are counted: more would only wait for each other."""
SLOWER = 0.334
"""A run may take three times as long to begin as a bare task."""
FEWER = 0.25
"""And there may be a quarter as many in a second."""
WAIT_AIM = 20
RATE_AIM = 2

Bodies = dict[str, dict[str, Any]]


def kinds() -> list[bool]:
    """Which installations there can be: whether PostgreSQL and Redis serve it."""
    return [False, True] if can_serve() else [False]


def workers(served: bool) -> int:
    """SQLite has one writer, so that a second worker would only wait for the first."""
    return WORKERS if served else 1


async def beside_celery(config: Config) -> list[Row]:
    """From before it is submitted to its beginning, and how many there are in a second, on the same broker in turns."""
    rows = []
    for served in kinds():
        size = {"workers": workers(served), "concurrency": CONCURRENCY}
        with world(served=served, **size) as one, bare(one, **size) as peer:
            rows += await _beside_celery(one, peer, config)
    return rows


async def _beside_celery(one: World, peer: Bare, config: Config) -> list[Row]:
    rows, bodies = [], await _bodies(one)
    for kind, body in bodies.items():
        order = RunOrder.model_validate(body)
        _library_run(one, order)
        ours, theirs = [], []
        for _ in range(config.rounds(SAMPLES)):
            ours.append(_library_run(one, order))
            theirs.append(peer.latency())
        rows.append(Row(f"{one.name}: submit to start, {kind}", "ms", _median(ours), _median(theirs), at_least=SLOWER))
        count = QUICK_AT_ONCE if config.quick else AT_ONCE
        each = _library_runs(one, order, count)
        rows.append(Row(f"{one.name}: each of {count} at once, {kind}", "ms", each, peer.each_of(count), at_least=FEWER))
    return rows


def _library_run(one: World, order: RunOrder) -> float:
    """Milliseconds from before a run is submitted to its beginning; it has ended afterwards."""
    began = time.time()
    submitted = one.service.order(order)
    for _ in one.service.follow(submitted.id):
        pass
    ended = _successful(one, submitted.id)
    assert ended.started_at is not None
    return (ended.started_at.timestamp() - began) * MILLISECONDS


def _library_runs(one: World, order: RunOrder, count: int) -> float:
    """Milliseconds that each of so many runs takes, submitted one after the other, until the last one has ended."""
    began = time.perf_counter()
    ids = [one.service.order(order).id for _ in range(count)]
    for run_id in ids:
        for _ in one.service.follow(run_id):
            pass
    taken = (time.perf_counter() - began) / count * MILLISECONDS
    for run_id in ids:
        _successful(one, run_id)
    return taken


def _successful(one: World, run_id: str) -> Any:
    ended = one.service.get(run_id)
    if ended.status.value != "success":
        raise RuntimeError(f"a measured run failed: {ended.status.value}: {ended.error}")
    return ended


async def beside_langgraph(config: Config) -> list[Row]:
    """Over HTTP, in turns: one run and its end, many at once, and submits alone."""
    rows = []
    for served in kinds():
        with ExitStack() as stack:
            one = stack.enter_context(world(served=served, workers=workers(served), concurrency=CONCURRENCY))
            jobs = workers(served) * CONCURRENCY
            peer_url = stack.enter_context(langgraph_dev(one.settings.home / "langgraph", jobs=jobs))
            async with _client(one.url, one.headers()) as ours, _client(peer_url, {}) as peer:
                rows += await _beside_langgraph(one, ours, peer, config)
    return rows


async def _beside_langgraph(one: World, ours: httpx.AsyncClient, peer: httpx.AsyncClient, config: Config) -> list[Row]:
    rows, bodies = [], await _bodies(one)
    samples, count = config.rounds(SAMPLES), QUICK_AT_ONCE if config.quick else AT_ONCE

    async def theirs() -> None:
        ok(await peer.post("/runs/wait", json=RUN))

    async def submitted() -> None:
        ok(await peer.post("/runs", json=RUN))

    peer_wait = await _each_alone(theirs, max(1, samples // 6))
    peer_each = await _each_of(theirs, count, count)
    for kind, body in bodies.items():
        def wait(body: dict[str, Any] = body) -> Awaitable[None]:
            return _waited(ours, body)

        rows.append(Row(f"{one.name}: submit and wait, {kind}", "ms", await _each_alone(wait, samples), peer_wait, WAIT_AIM))
        each = await _each_of(wait, count, count)
        rows.append(Row(f"{one.name}: each of {count} at once, {kind}", "ms", each, peer_each, RATE_AIM))
    return rows + await _submits(one, ours, submitted, config)


async def _submits(one: World, ours: httpx.AsyncClient, submitted: Callable[[], Awaitable[None]], config: Config) -> list[Row]:
    """Submits whose runs wait: the workers have none to do with it while they are counted, beyond what they can take."""
    count = QUICK_AT_ONCE if config.quick else SUBMITS
    body = command_task()
    order = RunOrder.model_validate(body)

    async def post() -> None:
        ok(await ours.post("/v1/runs", json=body))

    peer = await _each_of(submitted, count, CLIENTS)
    api = await _each_of(post, count, CLIENTS)
    began = time.perf_counter()
    for _ in range(count):
        one.service.order(order)
    library = (time.perf_counter() - began) / count * MILLISECONDS
    return [
        Row(f"{one.name}: each submit", "ms", api, peer, RATE_AIM),
        Row(f"{one.name}: each submit, library", "ms", library),
    ]


async def _waited(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    made = ok(await client.post("/v1/runs", json=body))
    ended = ok(await client.get(f"/v1/runs/{made['id']}/join", params={"timeout": TIMEOUT}))
    if ended["status"] != "success":
        raise RuntimeError(f"a measured run failed: {ended['status']}: {ended.get('error')}")


async def _each_alone(call: Callable[[], Awaitable[None]], samples: int) -> float:
    """The median milliseconds of a call, after one to warm up."""
    taken = []
    for sample in range(samples + 1):
        began = time.perf_counter()
        await call()
        if sample:
            taken.append(time.perf_counter() - began)
    return _median(taken) * MILLISECONDS


async def _each_of(call: Callable[[], Awaitable[None]], count: int, clients: int) -> float:
    """Milliseconds that each of so many calls takes, when so many clients make them."""
    gate = asyncio.Semaphore(clients)

    async def gated() -> None:
        async with gate:
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(gated() for _ in range(count)))
    return (time.perf_counter() - began) / count * MILLISECONDS


async def _bodies(one: World) -> Bodies:
    async with _client(one.url, one.headers()) as client:
        upload = ok(await client.post("/v1/uploads", content=ANSWER.encode()))
    return {"agent": agent_task(upload["id"]), "command": command_task()}


def _client(url: str, headers: dict[str, str]) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT, limits=limits, trust_env=False)


def _median(taken: list[float]) -> float:
    return statistics.median(taken)


BENCH = {
    "runs: ours / bare Celery tasks": beside_celery,
    "runs: ours / langgraph dev, over HTTP": beside_langgraph,
}

if __name__ == "__main__":
    run(BENCH)
