"""`python -m benchmarks.runs_load`: many agent runs at once on one worker, and what each of them holds of the memory.

Their model answers from a script, and calls a tool that waits. So each has a live sandbox with a command that runs, beside its
own state in the worker.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import httpx

from benchmarks.measure import Config, Row, run
from benchmarks.runs_world import TIMEOUT, WAITING, World, agent_task, can_serve, ok, wait_until, world
from orchestrator.service.orders import RunOrder

AT_ONCE = 200
QUICK_AT_ONCE = 3
KIB_PER_MIB = 1024.0


async def bench(config: Config) -> list[Row]:
    """On PostgreSQL and Redis, where there are such, because that is where so many runs belong."""
    count = QUICK_AT_ONCE if config.quick else AT_ONCE
    with world(served=can_serve(), workers=1, concurrency=count) as one:
        return _load(one, count)


def _load(one: World, count: int) -> list[Row]:
    worker = one.workers[0]
    content = {"content": WAITING.encode(), "headers": one.headers(), "timeout": TIMEOUT, "trust_env": False}
    upload = ok(httpx.post(f"{one.url}/v1/uploads", **content))
    order = RunOrder.model_validate(agent_task(upload["id"]))
    _ended(one, [_at_work(one, [one.service.order(order).id])])  # the first one has the worker import what agents need
    before = pss([worker])
    began = time.perf_counter()
    ids = [one.service.order(order).id for _ in range(count)]
    _at_work(one, ids)
    taken = time.perf_counter() - began
    held = (pss([worker]) - before) / count
    inside = pss(_inside([(one.service.get(run_id).sandbox or {})["id"] for run_id in ids])) / count
    began = time.perf_counter()
    _ended(one, [ids])
    return [
        Row(f"{count} agents at once: all at their tool call after", "s", taken),
        Row("memory of each in the worker", "MiB", max(held, 0.001)),
        Row("memory of each in its sandbox", "MiB", inside),
        Row(f"{count} cancelled: all ended after", "s", time.perf_counter() - began),
    ]


def _at_work(one: World, ids: list[str]) -> list[str]:
    """The runs, when each of them waits for its tool."""
    left = set(ids)

    def calls() -> bool:
        for run_id in list(left):
            events, _ = one.service.events_after(run_id)
            if any(event.type == "tool.call" for event in events):
                left.discard(run_id)
            elif any(event.type == "run.finished" for event in events):
                raise RuntimeError(f"a measured run failed: {one.service.get(run_id).error}")
        return not left

    wait_until(calls, "every agent has called its tool")
    wait_until(lambda: all(one.service.get(run_id).sandbox for run_id in ids), "every agent has a sandbox")
    return ids


def _ended(one: World, groups: Iterable[list[str]]) -> None:
    for ids in groups:
        for run_id in ids:
            one.service.cancel(run_id)
        wait_until(lambda ids=ids: all(one.service.get(one_id).status.terminal for one_id in ids), "every run has ended")


def _inside(sandboxes: list[str]) -> list[int]:
    """The processes of local sandboxes: those that have a mount which lies in the sandbox's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid, mounts = int(entry.name), (entry / "mountinfo").read_text()
            if any(sandbox in mounts for sandbox in sandboxes):
                found.append(pid)
    return found


def pss(pids: Iterable[int]) -> float:
    """MiB that these processes hold; what several share is divided among them."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / KIB_PER_MIB


BENCH = {"agents at once, one worker": bench}

if __name__ == "__main__":
    run(BENCH)
