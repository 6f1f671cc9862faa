"""`python -m benchmarks.fork`: a fork of a full workspace beside a sandbox that is made empty, on both providers."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks.measure import Config, Row, compare, run, sound
from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.providers.docker import DockerProvider
from sandboxes.providers.local import LocalProvider

ROUNDS = 12
SIZES = {"100 files": 100, "20,000 files, 500 MB": 20_000}
QUICK_SIZES = {"100 files": 100, "200 files": 200}
EACH = 25_000
"""Bytes of a file."""
AT_MOST: Final = 1.3
"""How many times the cost of an empty sandbox a fork may have; the table tells it the other way round."""
LABELS = {"fanfold-bench": "fork"}


async def local(config: Config) -> list[Row]:
    """The local provider."""
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        return await _rows(LocalProvider(Path(folder)), config)


async def docker(config: Config) -> list[Row]:
    """The docker provider."""
    provider = DockerProvider(config.image, pull="never")
    try:
        return await _rows(provider, config)
    finally:
        await provider.aclose()


async def _rows(provider: SandboxProvider, config: Config) -> list[Row]:
    sizes = QUICK_SIZES if config.quick else SIZES
    try:
        return [await _row(provider, config, what, files) for what, files in sizes.items()]
    except FanfoldSandboxError as exc:
        raise SystemExit(f"benchmarks: no sandbox can be made here: {exc}") from exc


async def _row(provider: SandboxProvider, config: Config, what: str, files: int) -> Row:
    """From the call to the answer of a first command; ending what was made is not measured."""
    async with _full(provider, files) as parent:
        made: list[SandboxHandle] = []

        async def forked() -> object:
            [child] = await provider.fork(parent, 1, labels=LABELS)
            assert isinstance(child, SandboxHandle), child
            return await _first_answer(provider, child, made)

        async def empty() -> object:
            return await _first_answer(provider, await provider.create(SandboxSpec(), LABELS), made)

        try:
            ours, peer = await compare(forked, empty, rounds=config.rounds(ROUNDS), ours_each=1, peer_each=1)
        finally:
            for handle in made:
                await provider.destroy(handle)
    return Row(f"fork of {what}", "ms", ours, peer, at_least=round(1 / AT_MOST, 2))


async def _first_answer(provider: SandboxProvider, handle: SandboxHandle, made: list[SandboxHandle]) -> object:
    made.append(handle)
    async with await provider.attach(handle) as sandbox:
        return await sandbox.aexecute("true")


@asynccontextmanager
async def _full(provider: SandboxProvider, files: int) -> AsyncIterator[SandboxHandle]:
    """A sandbox with so many files."""
    handle = await provider.create(SandboxSpec(), LABELS)
    try:
        async with await provider.attach(handle) as sandbox:
            sound(await sandbox.aexecute(f"head -c {files * EACH} /dev/zero | split -b {EACH} -a 5 - file- && sync"))
        yield handle
    finally:
        await provider.destroy(handle)


BENCH = {
    "local: a fork / an empty sandbox": local,
    "docker: a fork / an empty sandbox": docker,
}

if __name__ == "__main__":
    run(BENCH)
