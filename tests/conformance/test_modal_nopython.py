"""The modal provider with an image that has no Python: plain exec and `sh`.

Of the kit what the platform has a part in; the rest is done by the scripts alone, as on docker, which passes all of it.
"""

import asyncio
import contextlib
import functools

import pytest

from sandboxes.providers.modal import ModalProvider
from sandboxes.sandbox import CommandSpec
from sandboxes.testing.conformance import (
    CommandChecks,
    DurabilityChecks,
    KillChecks,
    LifecycleChecks,
    LimitChecks,
    StreamChecks,
)
from sandboxes.testing.conformance.base import ANSWER_DEADLINE
from sandboxes.testing.conformance.limits import PIDS
from tests.conformance.test_modal import OnModal
from tests.wire.modal.fixtures import modal_by_hand

__all__ = ["modal_by_hand"]


@pytest.fixture(scope="module")
def provider_factory(modal_by_hand):
    return functools.partial(ModalProvider, "fanfold-test/nopython:latest")


@pytest.mark.docker
class TestModalWithoutPython(OnModal, LimitChecks, LifecycleChecks, DurabilityChecks, StreamChecks, KillChecks, CommandChecks):
    async def test_a_fork_bomb_is_contained(self, provider, fresh):
        """All that the kit asks for but the last: at its limit such a sandbox may stay silent; then it can still be ended."""
        made = await self.defused(fresh)
        async with asyncio.timeout(60):
            await provider.destroy(made.handle)

    async def test_no_more_processes_can_be_started_than_allowed(self, provider, fresh):
        """All that the kit asks for but that it goes on answering: each command of plain exec takes a dozen processes."""
        made = await fresh(resources={"pids": PIDS})
        started = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_DEADLINE):
                many = CommandSpec("i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); echo $i; done; wait", timeout=20)
                command = await made.sandbox.start(many)
                async for chunk in command.output():
                    if chunk.stream == "stderr":
                        break
                    started += chunk.data.count(b"\n")
        assert 0 < started < PIDS
        async with asyncio.timeout(60):
            await provider.destroy(made.handle)
