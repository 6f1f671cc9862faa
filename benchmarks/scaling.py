"""`python -m benchmarks.scaling`: what more runs at once, more workers, and more processes of the API are good for.

On PostgreSQL and Redis, where there are such. There is no peer: the first setting stands in its place, so that a ratio is what
is won. Runs that wait sleep for a second in a local sandbox, as an agent waits for its model; runs that do not are `true`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.measure import MILLISECONDS, Config, Row, run
from benchmarks.runs_world import World, can_serve, serving, wait_until, world
from infra.load.__main__ import put
from infra.load.generator import Load
from infra.load.operations import MIX
from orchestrator.service.orders import RunOrder

RUNS, QUICK_RUNS = 96, 4
LOAD_SECONDS, QUICK_LOAD_SECONDS = 10.0, 0.2
CLIENTS = 16
SETTINGS = ((1, 4), (1, 16), (1, 32), (2, 16))
"""Workers, and runs at once of each. The first is what there is without any setting."""
COMMANDS = {"wait a second": "sleep 1", "do nothing": "true"}


async def workers(config: Config) -> list[Row]:
    """Runs, by workers and their runs at once."""
    count = QUICK_RUNS if config.quick else RUNS
    rows: list[Row] = []
    first: dict[str, float] = {}
    for number, at_once in SETTINGS[:2] if config.quick else SETTINGS:
        with world(served=can_serve(), workers=number, concurrency=at_once) as one:
            for name, command in COMMANDS.items():
                taken = _each(one, command, count)
                told = f"runs that {name}: {number} x {at_once} at once, each"
                rows.append(Row(told, "ms", taken, first.setdefault(name, taken)))
    return sorted(rows, key=lambda row: row.what.partition(":")[0])


def _each(one: World, command: str, count: int) -> float:
    """Milliseconds of each of so many runs, from the first submit to the last end; one before them warms up."""
    task = {"task": {"name": "noop", "command": command, "sandbox": {"provider": "local"}}}
    _ended(one, task, len(one.workers))
    began = time.perf_counter()
    _ended(one, task, count)
    return (time.perf_counter() - began) / count * MILLISECONDS


def _ended(one: World, task: dict[str, Any], count: int) -> None:
    order = RunOrder.model_validate(task)
    left = {one.service.order(order).id for _ in range(count)}

    def over() -> bool:
        for run_id in list(left):
            if (found := one.service.get(run_id)).status.terminal:
                if found.exit_code != 0:
                    raise RuntimeError(f"a measured run failed: {found.error}")
                left.discard(run_id)
        return not left

    wait_until(over, "all runs have ended")


async def processes(config: Config) -> list[Row]:
    """The API under the usual load, by the number of its processes."""
    with world(served=can_serve(), workers=0, concurrency=1) as one, serving(one.settings.home, one.variables) as (_, second):
        await _load(Config(quick=True), one, [one.url, second])  # warms up
        alone = await _load(config, one, [one.url])
        both = await _load(config, one, [one.url, second])
    told = f"{CLIENTS} clients at once, "
    return [
        Row(f"{told}1 process of the API: each request", "ms", alone, alone),
        Row(f"{told}2 processes: each request", "ms", both, alone),
    ]


async def _load(config: Config, one: World, urls: list[str]) -> float:
    """Milliseconds from the end of one answer to the end of the next one, of all clients together."""
    load = Load(QUICK_LOAD_SECONDS if config.quick else LOAD_SECONDS, MIX, CLIENTS // len(urls))
    done = await asyncio.gather(*(put(load, url, one.key) for url in urls))
    if any(each.errors for generator in done for each in generator.measured.values()):
        raise RuntimeError("a measured call failed")
    count = sum(len(each.seconds) for generator in done for each in generator.measured.values())
    return max(generator.taken for generator in done) / count * MILLISECONDS


BENCH = {"scaling: a setting / the first one": workers, "scaling: processes of the API": processes}

if __name__ == "__main__":
    run(BENCH)
