"""A wire server, a provider that uses it, and the promise that nothing is left."""

from __future__ import annotations

import asyncio
import time

import pytest
import pytest_asyncio

from sandboxes.providers.base import SandboxSpec
from tests.wire.daytona.fixtures import daytona_server, provider_of  # noqa: F401 - a fixture

LABELS = {"test": "faults"}
DEADLINE = 20.0


@pytest.fixture
def server(daytona_server):  # noqa: F811
    """The module's server, with nothing wrong and nothing counted."""
    daytona_server.faults.clear()
    daytona_server.world.created = 0
    daytona_server.tally.clear()
    yield daytona_server
    daytona_server.faults.clear()


@pytest_asyncio.fixture
async def provider(server):
    made = provider_of(server)()
    yield made
    server.faults.clear()
    for handle in await made.find():
        await made.destroy(handle)
    for snapshot in await made.find_snapshots():
        await made.delete_snapshot(snapshot)
    await made.aclose()


@pytest_asyncio.fixture
async def handle(provider):
    return await provider.create(SandboxSpec(), LABELS)


def there(server):
    """The sandboxes that the account still pays for."""
    return [one for one in server.world.boxes.values() if one.state not in ("destroyed", "destroying")]


def box_of(server, handle):
    return server.world.box(handle.id)


async def until(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.02)
