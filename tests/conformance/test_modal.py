"""The modal provider passes the conformance kit, over the real SDK and a server that speaks Modal's protocol."""

import functools

import pytest

from sandboxes.providers.modal import ModalProvider
from sandboxes.testing.conformance import ProviderConformance
from tests.wire.modal.fixtures import IMAGE, modal_server

__all__ = ["modal_server"]


@pytest.fixture(scope="module")
def provider_factory(modal_server):
    return functools.partial(ModalProvider, IMAGE)


@pytest.mark.docker
class TestModal(ProviderConformance):
    @pytest.fixture(autouse=True)
    def _server(self, modal_server):
        self.server = modal_server

    async def left_of(self, provider, ids):
        """Sandboxes that run under these ids, and snapshots. Images of forks go by themselves."""
        running = [one.name for one in self.server.sandboxes()]
        return [name for name in [*running, *(one.id for one in await provider.find_snapshots())] if name in ids]
