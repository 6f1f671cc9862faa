"""`python -m benchmarks.operation`: what an installation costs while nothing happens, what its API bears, and how many
sandboxes a machine holds (`crowd.py`).

The load is that of `infra.load`, for the API and for its peer, a bare Starlette application that answers everything from
memory, in turns and from this process: what the load itself takes of the machine is the same for both.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import crowd
from benchmarks.measure import MILLISECONDS, Config, Row, run
from benchmarks.runs_celery import Bare
from benchmarks.runs_load import pss
from benchmarks.runs_world import World, can_serve, free_port, listens, started, wait_until, world
from infra.load.__main__ import put
from infra.load.generator import Generator, Load, Measured
from infra.load.operations import MIX

IDLE_SECONDS, QUICK_IDLE_SECONDS = 30.0, 0.5
LOAD_SECONDS, QUICK_LOAD_SECONDS = 10.0, 0.2
ROUNDS = 3
AT_ONCE = 16
CONCURRENCY = 4
"""Runs at once of the idle worker, and of its peer: the default."""
LEAST_CPU = 0.001
"""Milliseconds in a second: less is not told apart from nothing."""


@dataclass(frozen=True)
class Idle:
    """What a process takes while nothing happens."""

    mib: float
    """Its proportional set: what it shares is divided among those that share it."""
    cpu: float
    """Milliseconds of a processor in each second."""


async def idle(config: Config) -> list[Row]:
    """Each role, and the least that could stand in its place."""
    return [row for served in _kinds() for row in _idle_rows(config, served)]


async def api(config: Config) -> list[Row]:
    """The API alone, without workers: what is submitted waits."""
    return [row for served in _kinds() for row in await _load_rows(config, served)]


def _kinds() -> list[bool]:
    """SQLite and Valkey; PostgreSQL and Redis where there are such."""
    return [False, True] if can_serve() else [False]


# Idle


def _idle_rows(config: Config, served: bool) -> list[Row]:
    with world(served=served, workers=1, concurrency=CONCURRENCY) as one, ExitStack() as stack:
        home = one.settings.home
        command = [sys.executable, "-m", "orchestrator.cli.main", "controller"]
        controller = stack.enter_context(started(command, home, one.variables))
        hello, _ = stack.enter_context(_hello(home))
        celery = stack.enter_context(_celery(one))
        pids = {"API": one.api, "controller": controller.pid, "worker": one.workers[0], "hello": hello, "celery": celery}
        found = _measured(pids, QUICK_IDLE_SECONDS if config.quick else IDLE_SECONDS)
    rows = []
    for role, peer in (("API", "hello"), ("controller", None), ("worker", "celery")):
        other = found[peer] if peer else None
        rows.append(Row(f"{one.name}: {role}, memory", "MiB", found[role].mib, other.mib if other else None))
        rows.append(Row(f"{one.name}: {role}, processor in a second", "ms", found[role].cpu, other.cpu if other else None))
    return rows


def _measured(pids: Mapping[str, int], seconds: float) -> dict[str, Idle]:
    time.sleep(seconds / 5)  # what a process does at its begin is no idleness
    before = {name: _cpu(pid) for name, pid in pids.items()}
    began = time.perf_counter()
    time.sleep(seconds)
    taken = time.perf_counter() - began
    spent = {name: max((_cpu(pid) - before[name]) / taken, LEAST_CPU) for name, pid in pids.items()}
    return {name: Idle(pss([pid]), spent[name]) for name, pid in pids.items()}


def _cpu(pid: int) -> float:
    """Milliseconds of a processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * MILLISECONDS


@contextmanager
def _hello(home: Path) -> Iterator[tuple[int, str]]:
    """The peer of the API: its process, and its address."""
    port = free_port()
    with started([sys.executable, "-m", "benchmarks.hello", str(port)], home, {}) as process:
        wait_until(lambda: listens(port), "the peer answers")
        yield process.pid, f"http://127.0.0.1:{port}"


@contextmanager
def _celery(one: World) -> Iterator[int]:
    """The peer of the worker, on the same broker: its process, when it has done something."""
    url = one.service.broker_url
    with started([sys.executable, "-m", "benchmarks.runs_celery", url, str(CONCURRENCY)], one.settings.home, {}) as process:
        bare = Bare(url)
        try:
            wait_until(lambda: bare.latency() > 0, "a Celery task begins")
        finally:
            bare.close()
        yield process.pid


# Load


@dataclass(frozen=True)
class Borne:
    """How a load was borne. All are milliseconds."""

    each: float
    """From the end of one answer to the end of the next one, of all that are at once."""
    p50: float
    p99: float
    cpu: float
    """Of the server's processor, for a request."""


async def _load_rows(config: Config, served: bool) -> list[Row]:
    rows = []
    with world(served=served, workers=0, concurrency=1) as one, _hello(one.settings.home) as (pid, url):
        for mix in (MIX, *({name: 1} for name in MIX)):
            what = "mix" if mix is MIX else next(iter(mix))
            for at_once in (AT_ONCE, 1) if mix is MIX else (AT_ONCE,):
                ours, peer = await _borne(config, one, (pid, url), mix, at_once)
                told = f"{one.name}: {what}, {at_once} at once"
                shown = {"p50": (ours.p50, peer.p50), "p99": (ours.p99, peer.p99)}
                if at_once > 1:
                    shown["processor of the server"] = (ours.cpu, peer.cpu)
                if mix is MIX and at_once > 1:
                    shown = {"each request": (ours.each, peer.each), **shown}
                rows += [Row(f"{told}: {name}", "ms", *both) for name, both in shown.items()]
    return rows


async def _borne(
    config: Config, one: World, peer: tuple[int, str], mix: Mapping[str, int], at_once: int
) -> tuple[Borne, Borne]:
    """The medians of both, which take turns; the first turn only warms up, where there are several."""
    load = Load(QUICK_LOAD_SECONDS if config.quick else LOAD_SECONDS, mix, at_once)
    turns: list[list[Borne]] = [[], []]
    warming = not config.quick
    for turn in range(config.rounds(ROUNDS) + warming):
        for side, (pid, url) in zip(turns, ((one.api, one.url), peer), strict=True):
            before = _cpu(pid)
            done = await put(load, url, one.key)
            if turn >= warming:
                side.append(_told(done, _cpu(pid) - before))
    ours, theirs = (Borne(*map(statistics.median, zip(*map(_numbers, side), strict=True))) for side in turns)
    return ours, theirs


def _told(done: Generator, cpu: float) -> Borne:
    whole = Measured([one for each in done.measured.values() for one in each.seconds])
    if any(each.errors for each in done.measured.values()):
        raise RuntimeError(f"a measured call failed: {[dict(each.errors) for each in done.measured.values()]}")
    count = len(whole.seconds)
    p50, p99 = (whole.percentile(share) * MILLISECONDS for share in (0.5, 0.99))
    return Borne(done.taken / count * MILLISECONDS, p50, p99, max(cpu / count, LEAST_CPU))


def _numbers(one: Borne) -> tuple[float, ...]:
    return one.each, one.p50, one.p99, one.cpu


BENCH = {
    "idle control plane: ours / a bare Starlette, a bare Celery": idle,
    "API under load: ours / a bare Starlette that knows the answer": api,
    **crowd.BENCH,
}

if __name__ == "__main__":
    run(BENCH)
