"""The local provider passes the conformance kit."""

import functools
import os

import pytest

from sandboxes.providers.local import LocalProvider
from sandboxes.testing.conformance import ProviderConformance


@pytest.fixture(scope="module")
def provider_factory(tmp_path_factory):
    return functools.partial(LocalProvider, tmp_path_factory.mktemp("home"))


ROOTS_GAPS = (
    {
        "test_a_folder_that_only_its_owner_can_reach_can_be_mounted": (
            "root's sandboxes run as another user, who cannot pass through a folder that only root may enter"
        ),
    }
    if os.geteuid() == 0
    else {}
)


class TestLocal(ProviderConformance):
    gaps = {
        "test_a_public_network_does_not_lead_to_what_listens_on_the_hosts_loopback": (
            "`network: public` shares this machine's network: what listens on its loopback can be reached"
        ),
        **ROOTS_GAPS,
    }

    async def left_of(self, provider, ids):
        return [str(path) for id_ in ids for path in provider._sandboxes.glob(f"{id_}*")]
