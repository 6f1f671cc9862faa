"""The modal provider passes the conformance kit with an image that has no Python: plain exec and `sh`."""

import asyncio
import functools

import pytest

from sandboxes.providers.modal import ModalProvider
from tests.conformance.test_modal import TestModal as WithPython
from tests.wire.modal.fixtures import modal_by_hand

__all__ = ["modal_by_hand"]


@pytest.fixture(scope="module")
def provider_factory(modal_by_hand):
    return functools.partial(ModalProvider, "fanfold-test/nopython:latest")


@pytest.mark.docker
class TestModalWithoutPython(WithPython):
    gaps = {
        "test_no_more_processes_can_be_started_than_allowed": "plain exec takes a dozen processes for each command: when the "
        "orphans of one that ended take nearly all of 64, no other can be started",
    }

    async def test_a_fork_bomb_is_contained(self, provider, fresh):
        """All that the kit asks for but the last: at its limit such a sandbox may stay silent; then it can still be ended."""
        made = await self.defused(fresh)
        async with asyncio.timeout(60):
            await provider.destroy(made.handle)


del WithPython
