"""What the checks of forks and of snapshots stand on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sandboxes.providers.base import SandboxProvider
from sandboxes.sandbox import Sandbox
from sandboxes.testing.conformance import elsewhere
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, Maker, ProviderFactory, ok

MOMENTS = [0.0, 0.03, 0.06, 0.1, 0.2, 0.4, 0.8]
"""Seconds after which somebody who forks, or keeps a snapshot, is stopped or killed."""

ZOO = """
mkdir -p deep/er/still empty closed shared
printf 'text\\n' > plain
printf '\\0\\377\\r\\n' > deep/binary
: > nothing
printf '#!/bin/sh\\necho ran\\n' > program
chmod 755 program
printf x > secret && chmod 600 secret
printf x > fixed && chmod 444 fixed
chmod 700 closed && printf x > closed/in
chmod 1777 shared
ln -s deep/er up
ln -s /no/such/place dangling
ln -s program "a link"
head -c 3000000 /dev/urandom > large
chmod 750 .
"""
"""Something of everything that a working directory may hold."""
PICTURE = """
find . -print0 | LC_ALL=C sort -z | xargs -0 stat -c '%n|%F|%a|%N'
find . -type f -print0 | LC_ALL=C sort -z | xargs -0 stat -c '%s %Y'
find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
"""


async def picture(sandbox: Sandbox) -> str:
    """All that is in the working directory: names, kinds, permissions, links, times and content."""
    return await ok(sandbox, PICTURE)


class DividingChecks(Checks):
    """Base of the checks of forks and of snapshots."""

    async def left_of(self, provider: SandboxProvider, ids: Sequence[str]) -> list[str]:
        """Names of what is on the platform of these sandboxes and snapshots, none of which is there any more.

        For a test class to look where the contract cannot: layers, volumes, images.
        """
        return []

    async def assert_nothing_is_left(self, provider: SandboxProvider, fresh: Maker, *ids: str) -> None:
        """Nothing is found by the labels of this check, and nothing is on the platform of these ids."""
        assert await provider.find(fresh.labels) == []
        assert await provider.find_snapshots(fresh.labels) == []
        assert await self.left_of(provider, ids) == []


async def killed_after(moment: float, provider_factory: ProviderFactory, job: elsewhere.Job) -> None:
    """Let another process begin with a job, and kill it so many seconds later."""
    process = await elsewhere.begin(provider_factory, job)
    assert process.stdout is not None
    async with asyncio.timeout(ANSWER_DEADLINE):
        assert await process.stdout.readline() == b"begun\n"
    await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=moment)
    if process.returncode is None:
        process.kill()
    await process.wait()
