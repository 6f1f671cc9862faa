"""Making several sandboxes at once: each has an outcome of its own, and what ends all of them leaves none."""

import asyncio

import pytest

from sandboxes.errors import SandboxError
from sandboxes.providers.base import SandboxHandle
from sandboxes.providers.copying import settled


class Platform:
    """Where sandboxes are names in a set."""

    def __init__(self):
        self.there = set()
        self.made, self.gate = asyncio.Event(), asyncio.Event()

    async def make(self, name):
        self.there.add(name)
        self.made.set()
        return SandboxHandle("here", name)

    async def refuse(self, error):
        raise error

    async def wait(self, name):
        await self.gate.wait()
        return await self.make(name)

    async def destroy(self, handle):
        self.there.remove(handle.id)


async def test_a_child_that_fails_is_told_in_its_place_and_spares_the_others():
    platform, error = Platform(), SandboxError("no room")
    made = await settled([platform.make("a"), platform.refuse(error), platform.make("c")], platform)
    assert made == [SandboxHandle("here", "a"), error, SandboxHandle("here", "c")]
    assert platform.there == {"a", "c"}


async def test_an_error_that_is_not_ours_leaves_no_child():
    platform = Platform()
    with pytest.raises(ZeroDivisionError):
        await settled([platform.make("a"), platform.refuse(ZeroDivisionError())], platform)
    assert platform.there == set()


async def test_to_be_cancelled_leaves_no_child():
    platform = Platform()
    task = asyncio.create_task(settled([platform.make("a"), platform.wait("b")], platform))
    await platform.made.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert platform.there == set()
