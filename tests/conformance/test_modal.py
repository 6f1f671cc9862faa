"""The modal provider passes the conformance kit, over the real SDK and a server that speaks Modal's protocol."""

import asyncio
import functools
import subprocess

import pytest

from sandboxes.providers.modal import ModalProvider
from sandboxes.testing.conformance import ProviderConformance
from tests.wire.modal.fixtures import IMAGE, modal_by_hand

__all__ = ["modal_by_hand"]


@pytest.fixture(scope="module")
def provider_factory(modal_by_hand):
    return functools.partial(ModalProvider, IMAGE)


class OnModal:
    """What the kit asks of this platform in another way."""

    finds_ended = False

    async def left_of(self, provider, ids):
        """Sandboxes that run under these ids, and snapshots. Images of forks go by themselves."""
        told = await asyncio.to_thread(subprocess.check_output, ["docker", "ps", "-a", "--format", "{{.Names}}"], text=True)
        names = [*told.split(), *(one.id for one in await provider.find_snapshots())]
        return [name for name in names if any(id_ in name for id_ in ids)]


@pytest.mark.docker
class TestModal(OnModal, ProviderConformance):
    pass
