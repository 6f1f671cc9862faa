"""`python -m benchmarks.toolbox`: the toolbox in a container beside deepagents' `BaseSandbox` over `docker exec`."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from benchmarks import container, memory
from benchmarks.container import NEEDLE, TREE
from benchmarks.measure import Call, Config, Row, compare, need, run, sound
from sandboxes.sandbox import Sandbox

if TYPE_CHECKING:
    from benchmarks.dockerexec import DockerExecSandbox

ONE = f"{TREE}/part1/file1.py"
ROUNDS = 10
FEW_ROUNDS = 3
"""For what takes the peer seconds."""
SMALL_FILES = 100
LARGE = 50_000_000
"""Bytes."""
READERS = 32


async def bench(config: Config) -> list[Row]:
    """Every row against the peer, on one container."""
    need("deepagents", "deepagents")
    from benchmarks.dockerexec import DockerExecSandbox

    async with container.sandbox(config) as (handle, ours):
        idle = await memory.rows(config, handle.id)
        with closing(DockerExecSandbox(handle.id)) as peer:
            return [*await _calls(config, ours, peer), *await _transfers(config, ours, peer), *idle]


async def _calls(config: Config, ours: Sandbox, peer: DockerExecSandbox) -> list[Row]:
    our_names, peer_names = _names("ours"), _names("peer")
    our_edit, peer_edit = _edits(f"{TREE}/ours.txt"), _edits(f"{TREE}/peer.txt")
    for name in ("ours", "peer"):
        sound(await ours.awrite(f"{TREE}/{name}.txt", "version = 0\n"))
    text = container.source(1)
    pairs: list[tuple[str, float, Call, Call]] = [
        ('execute("true")', 10, lambda: ours.aexecute("true"), lambda: peer.execute("true")),
        ("ls", 25, lambda: ours.als(TREE), lambda: peer.ls(TREE)),
        ("read 4 KB", 25, lambda: ours.aread(ONE), lambda: peer.read(ONE)),
        ("write 4 KB", 25, lambda: ours.awrite(next(our_names), text), lambda: peer.write(next(peer_names), text)),
        ("edit", 25, lambda: ours.aedit(*next(our_edit)), lambda: peer.edit(*next(peer_edit))),
        ("grep, 100 files", 25, lambda: ours.agrep(NEEDLE, TREE), lambda: peer.grep(NEEDLE, TREE)),
        ("glob, 100 files", 25, lambda: ours.aglob("*.py", TREE), lambda: peer.glob("*.py", TREE)),
    ]
    rounds = config.rounds(ROUNDS)
    return [Row(what, "ms", *await compare(mine, its, rounds=rounds), target) for what, target, mine, its in pairs]


async def _transfers(config: Config, ours: Sandbox, peer: DockerExecSandbox) -> list[Row]:
    mine, its, packed = _batches("ours"), _batches("peer"), _batches("packed")
    large = [("/workspace/large.bin", os.urandom(LARGE))]
    names = [path for path, _ in large]
    pairs: list[tuple[str, float | None, Call, Call]] = [
        ("upload 100 x 1 KB", 300, lambda: ours.aupload_files(next(mine)), lambda: peer.upload_files(next(its))),
        ("the same, peer packs one archive", None, lambda: ours.aupload_files(next(mine)), lambda: peer.put(next(packed))),
        ("upload 50 MB", 1, lambda: ours.aupload_files(large), lambda: peer.upload_files(large)),
        ("the same, peer sends an archive", None, lambda: ours.aupload_files(large), lambda: peer.put(large)),
        ("download 50 MB", 1, lambda: ours.adownload_files(names), lambda: peer.download_files(names)),
        ("the same, peer fetches an archive", None, lambda: ours.adownload_files(names), lambda: peer.get(names[0])),
        ("32 parallel reads of 4 KB", 30, _parallel(lambda: ours.aread(ONE)), _parallel(lambda: peer.aread(ONE))),
    ]
    rounds = config.rounds(FEW_ROUNDS)
    return [
        Row(what, "ms", *await compare(first, second, rounds=rounds, ours_each=3, peer_each=1), target)
        for what, target, first, second in pairs
    ]


def _batches(side: str) -> Iterator[list[tuple[str, bytes]]]:
    """New files each time: to replace a file costs more than to make one."""
    for batch in itertools.count():
        yield [(f"/workspace/small/{side}{batch}/{number}.txt", b"x" * 1024) for number in range(SMALL_FILES)]


def _parallel(read: Callable[[], object]) -> Call:
    async def reads() -> list[object]:
        return list(await asyncio.gather(*(read() for _ in range(READERS))))  # type: ignore[call-overload]

    return reads


def _names(side: str) -> Iterator[str]:
    return (f"/workspace/written/{side}-{number}.py" for number in itertools.count())


def _edits(path: str) -> Iterator[tuple[str, str, str]]:
    return ((path, f"version = {number}\n", f"version = {number + 1}\n") for number in itertools.count())


BENCH = {"docker: toolbox / deepagents over docker exec": bench}

if __name__ == "__main__":
    run(BENCH)
