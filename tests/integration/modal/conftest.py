"""A server that can be made to fail, and a provider of each test's own."""

import asyncio
import time
import uuid

import pytest

from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.modal import ModalProvider
from tests.wire.modal.fixtures import IMAGE, modal_server
from tests.wire.modal.server import WireServer

__all__ = ["modal_server"]
SECONDS = 60
"""For a condition to come true."""


@pytest.fixture
def server(modal_server: WireServer):
    """It starts with nothing, and everything goes well until a test says otherwise."""
    life = modal_server.keys.life
    modal_server.counts.taken()
    yield modal_server
    modal_server.faults.clear()
    modal_server.keys.life = life


@pytest.fixture
def labels():
    return {"test": uuid.uuid4().hex}


@pytest.fixture
async def provider(server, labels):
    made = ModalProvider(IMAGE)
    yield made
    server.faults.clear()
    for handle in await made.find(labels):
        await made.destroy(handle)
    await made.aclose()
    assert server.sandboxes() == []  # each test leaves nothing


@pytest.fixture
def create(provider, labels):
    async def create(**fields):
        return await provider.create(SandboxSpec(**fields), labels)

    return create


@pytest.fixture
async def ready(provider, create):
    """The provider after its first sandbox: it is connected, and knows the image."""
    await provider.destroy(await create())
    return provider


async def until(condition, what):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"not within {SECONDS} s: {what}"
        await asyncio.sleep(0.02)
