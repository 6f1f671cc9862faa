"""A Docker sandbox for a benchmark, with the same files in it each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.measure import Config, need, sound
from sandboxes.errors import FanfoldSandboxError
from sandboxes.providers.base import SandboxHandle, SandboxSpec
from sandboxes.sandbox import Sandbox

TREE = "/workspace/tree"
FILES = 100
"""Files in `TREE`, in ten folders: a small repository."""
LINES = 100
"""Lines of each of them; about 4 KB."""
NEEDLE = "needle"
"""A word that every tenth file has once."""


def source(number: int) -> str:
    """The text of a file of the tree."""
    lines = [f"value_{line} = compute({number}, {line})  # plain text" for line in range(LINES)]
    if number % 10 == 0:
        lines[LINES // 2] = f"{NEEDLE} = {number}"
    return "\n".join(lines) + "\n"


def tree() -> list[tuple[str, bytes]]:
    """Paths and contents."""
    return [(f"{TREE}/part{number % 10}/file{number}.py", source(number).encode()) for number in range(FILES)]


@asynccontextmanager
async def sandbox(config: Config) -> AsyncIterator[tuple[SandboxHandle, Sandbox]]:
    """A new container, attached, with the tree in it; gone afterwards."""
    need("docker", "docker")
    from sandboxes.providers.docker import DockerProvider

    provider = DockerProvider(config.image, pull="never")
    try:
        handle = await provider.create(SandboxSpec(), {"purpose": "benchmark"})
    except FanfoldSandboxError as exc:
        await provider.aclose()
        raise SystemExit(f"benchmarks: no Docker sandbox can be made here: {exc}") from exc
    try:
        async with await provider.attach(handle) as attached:
            sound(await attached.aupload_files(tree()))
            yield handle, attached
    finally:
        await provider.destroy(handle)
        await provider.aclose()
