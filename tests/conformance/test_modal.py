"""The modal provider passes the conformance kit, over the real SDK and a server that speaks Modal's protocol."""

import asyncio
import functools
import subprocess

import pytest

from sandboxes.errors import SandboxError, SandboxGone
from sandboxes.providers.modal import ModalProvider
from sandboxes.testing.conformance import ProviderConformance
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, until
from sandboxes.testing.conformance.lifecycle import SHORT, _ended
from tests.wire.modal.fixtures import IMAGE, modal_by_hand

__all__ = ["modal_by_hand"]


@pytest.fixture(scope="module")
def provider_factory(modal_by_hand):
    return functools.partial(ModalProvider, IMAGE)


@pytest.mark.docker
class OnModal:
    """What the kit asks of this platform in another way."""

    async def test_a_sandbox_ends_with_its_lifetime_whatever_runs_in_it(self, provider, fresh):
        """All that the kit asks for but one thing: the platform lists no sandbox that has ended, of which nothing is left."""
        made = await fresh(lifetime=SHORT)
        waiting = asyncio.create_task(made.sandbox.aexecute("sleep 600"))
        async with asyncio.timeout(ANSWER_DEADLINE):
            with pytest.raises(SandboxError):
                await waiting
        await until(lambda: _ended(provider, made.handle), "the sandbox has ended")
        with pytest.raises(SandboxGone):
            await provider.attach(made.handle)
        assert await provider.find(fresh.labels) == []
        await provider.destroy(made.handle)

    async def left_of(self, provider, ids):
        """Sandboxes that run under these ids, and snapshots. Images of forks go by themselves."""
        told = await asyncio.to_thread(subprocess.check_output, ["docker", "ps", "-a", "--format", "{{.Names}}"], text=True)
        names = [*told.split(), *(one.id for one in await provider.find_snapshots())]
        return [name for name in names if any(id_ in name for id_ in ids)]


class TestModal(OnModal, ProviderConformance):
    pass
