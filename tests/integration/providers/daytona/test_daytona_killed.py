"""Who forks and is killed in the middle leaves a snapshot that costs: it goes with its sandbox, or after a while by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

from sandboxes.providers.daytona import forks
from tests.integration.providers.daytona.conftest import LABELS, there, until

FORKING = """
import asyncio, json, sys
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.daytona import DaytonaProvider

key, url, handle = sys.argv[1:]
provider = DaytonaProvider(api_key=key, api_url=url, target="us")
asyncio.run(provider.fork(SandboxHandle.from_json(json.loads(handle)), 2, labels={"test": "faults"}))
"""


@contextmanager
def forking(server, handle):
    """A process that forks a sandbox, and is killed at the end."""
    arguments = [server.key, server.api_url, json.dumps(handle.to_json())]
    with subprocess.Popen([sys.executable, "-c", FORKING, *arguments]) as process:
        try:
            yield
        finally:
            process.kill()


async def left_by_a_killed_fork(server, handle):
    """Fork until the children are asked for, and be killed; the names of the snapshots that are left."""
    server.faults.set({"stuck": True})
    with forking(server, handle):
        await until(lambda: len(there(server)) == 3, "the children are being made")
    server.faults.clear()
    return [one.name for one in server.world.kept.values()]


async def test_the_snapshot_of_a_killed_fork_goes_with_its_sandbox(server, provider, handle):
    kept = await provider.snapshot(handle, LABELS)
    left = await left_by_a_killed_fork(server, handle)
    assert len(left) == 2
    await provider.destroy(handle)
    assert [one.id for one in await provider.find_snapshots()] == [kept.id]
    assert sorted(one.name for one in there(server)) == sorted(one.id for one in await provider.find(LABELS))


async def test_the_snapshot_of_a_killed_fork_whose_sandbox_has_gone_is_swept_when_no_fork_can_need_it(server, provider, handle):
    kept = await provider.snapshot(handle, LABELS)
    await left_by_a_killed_fork(server, handle)
    server.loop.call_soon_threadsafe(lambda: server.world.begin(server.world.destroy(server.world.box(handle.id))))
    await until(lambda: handle.id not in [one.name for one in there(server)], "the platform has removed it")
    await provider.sweep()
    assert len(server.world.kept) == 2
    for one in server.world.kept.values():
        one.created -= forks.LEFT_SECONDS + 60
    await provider.sweep()
    assert [one.id for one in await provider.find_snapshots()] == [kept.id]


async def test_a_fork_that_goes_well_leaves_no_snapshot_and_its_parent_its_labels(server, provider, handle):
    await provider.fork(handle, 1, labels={"child": "1"})
    assert server.world.kept == {}
    assert [one.labels for one in await provider.find(LABELS)] == [LABELS]
    assert [one.labels for one in await provider.find({"child": "1"})] == [{"child": "1"}]
