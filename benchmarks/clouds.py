"""`python -m benchmarks.clouds`: requests and bytes of the cloud providers beside langchain-modal and langchain-daytona.

Both sides use the real SDKs against one wire server of the tests (`tests/wire`), which counts. The peers run in an environment
of their own, because langchain-modal needs a `modal` before 1.6. Nothing is timed.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.clouds_operations import check, files, furniture, operations
from benchmarks.environments import environment, is_made
from benchmarks.measure import Bench, Config, Row, run, sound
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.sandbox import Sandbox

PEERS = ("langchain-modal==0.0.7", "langchain-daytona==0.0.9", "modal==1.5.5", "daytona==0.226.1", "deepagents==0.7.32")
FOLDER = "/workspace/bench"
TURNS = 3
QUIET = 0.15
"""Seconds without any traffic, after which an operation counts as over."""
DONE_SECONDS = 60.0
"""How long the traffic of one operation may go on."""
KIB = 1024


@dataclass(frozen=True)
class Traffic:
    """What went over the wire: requests, messages that were sent over open WebSockets, and bytes of content, both ways."""

    requests: int
    messages: int
    size: int

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.requests + other.requests, self.messages + other.messages, self.size + other.size)


@dataclass(frozen=True)
class Cloud:
    """A wire server: the variables that lead to it, and a look at what it has counted up to now."""

    name: str
    variables: Mapping[str, str]
    counted: Callable[[], Traffic]
    provider: Callable[[], SandboxProvider]


def installed() -> bool:
    """Whether the peers are there already."""
    return is_made("clouds", *PEERS)


@contextmanager
def _modal(config: Config) -> Iterator[Cloud]:
    from sandboxes.providers.modal import ModalProvider
    from tests.wire.modal.server import serving

    with serving() as server:

        def counted() -> Traffic:
            of = server.counts.told().values()
            return Traffic(sum(one.requests for one in of), 0, sum(one.received + one.sent for one in of))

        yield Cloud("modal", server.environment, counted, lambda: ModalProvider(config.image))


@contextmanager
def _daytona(_config: Config) -> Iterator[Cloud]:
    from sandboxes.providers.daytona import DaytonaProvider
    from tests.wire.daytona.server import WireServer

    with WireServer() as server:

        def counted() -> Traffic:
            of = [one for route, one in server.tally.told().items() if "socket.io" not in route]
            size = sum(one["received"] + one["sent"] for one in of)
            return Traffic(sum(one["requests"] for one in of), sum(one["messages"] for one in of), size)

        yield Cloud("daytona", server.variables, counted, DaytonaProvider)


class Counting:
    """Counts one thing after the other."""

    def __init__(self, counted: Callable[[], Traffic]) -> None:
        self._counted = counted

    async def of(self, work: Awaitable[object]) -> Traffic:
        """What went over the wire for it."""
        before = await self._quiet()
        await work
        after = await self._quiet()
        return Traffic(after.requests - before.requests, after.messages - before.messages, after.size - before.size)

    async def _quiet(self) -> Traffic:
        """The count, when it has not changed for a while."""
        async with asyncio.timeout(DONE_SECONDS):
            last = self._counted()
            while True:
                await asyncio.sleep(QUIET)
                if last == (last := self._counted()):
                    return last


class Ours:
    """Our side: one sandbox at a time."""

    def __init__(self, provider: SandboxProvider) -> None:
        self._provider = provider
        self._handle: SandboxHandle
        self._attached: Sandbox

    async def do(self, word: str) -> None:
        """See `clouds_peer.py`."""
        if word == "create":
            self._handle = await self._provider.create(SandboxSpec(), {"purpose": "benchmark"})
        elif word == "first":
            self._attached = await self._provider.attach(self._handle)
            sound(await self._attached.aexecute("true"))
        elif word == "fill":
            sound(await self._attached.aexecute(furniture(FOLDER)))
            sound(await self._attached.aupload_files(files(FOLDER)))
        elif word == "destroy":
            await self._attached.aclose()
            await self._provider.destroy(self._handle)
        else:
            number, turn = map(int, word.split())
            operation = operations(FOLDER, turn)[number]
            call: Callable[..., Awaitable[Any]] = getattr(self._attached, f"a{operation.method}")
            check(operation, await call(*operation.arguments))


class Peer:
    """The other side, in its own process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, word: str) -> None:
        """See `clouds_peer.py`. Raises `RuntimeError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n".encode())
        line = await self._process.stdout.readline()
        if error := json.loads(line or '{"error": "it has ended"}')["error"]:
            raise RuntimeError(f"the peer failed to {word}: {error}")


@asynccontextmanager
async def _peer(cloud: Cloud, config: Config) -> AsyncIterator[Peer]:
    python = environment("clouds", *PEERS) / "bin" / "python"
    script = Path(__file__).with_name("clouds_peer.py")
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(script), cloud.name, config.image),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **cloud.variables, "PYTHONPATH": ""},
    )
    try:
        yield Peer(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def _ours(cloud: Cloud) -> AsyncIterator[Ours]:
    before = {name: os.environ.get(name) for name in cloud.variables}
    os.environ.update(cloud.variables)
    provider = cloud.provider()
    try:
        yield Ours(provider)
    finally:
        await provider.aclose()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


async def _counts(side: Ours | Peer, counting: Counting, turns: int) -> dict[str, Traffic]:
    """The traffic of each operation, by what it is."""
    told = {"create, the first": await counting.of(side.do("create"))}
    await side.do("first")
    await side.do("destroy")
    told["create, a later one"] = await counting.of(side.do("create"))
    told["attach, first command"] = await counting.of(side.do("first"))
    await side.do("fill")
    for number, operation in enumerate(operations(FOLDER, 0)):
        of = [await counting.of(side.do(f"{number} {turn}")) for turn in range(turns)]
        told[operation.what] = Traffic(
            *(round(statistics.median(getattr(one, name) for one in of)) for name in ("requests", "messages", "size"))
        )
    told["destroy"] = await counting.of(side.do("destroy"))
    return told


def _rows(ours: Mapping[str, Traffic], peers: Mapping[str, Traffic]) -> Iterator[Row]:
    """Requests first: fewer are the aim, for each operation. Then bytes, and messages where there are any."""
    for what, mine in ours.items():
        yield Row(what, "req", mine.requests, peers[what].requests, below=peers[what].requests)
    for what, mine in ours.items():
        yield Row(f"{what}: bytes", "KiB", mine.size / KIB, peers[what].size / KIB)
    for what, mine in ours.items():
        if mine.messages:
            yield Row(f"{what}: messages", "msg", mine.messages, peers[what].messages)


def _bench(serving: Callable[[Config], Any]) -> Bench:
    async def bench(config: Config) -> list[Row]:
        turns = config.rounds(TURNS)
        with serving(config) as cloud:
            counting = Counting(cloud.counted)
            async with _ours(cloud) as side:
                ours = await _counts(side, counting, turns)
            async with _peer(cloud, config) as other:
                peers = await _counts(other, counting, turns)
        return list(_rows(ours, peers))

    return bench


modal, daytona = _bench(_modal), _bench(_daytona)
BENCH = {"modal: traffic, ours / langchain-modal": modal, "daytona: traffic, ours / langchain-daytona": daytona}

if __name__ == "__main__":
    run(BENCH)
