"""The daytona provider passes the conformance kit with an image that has no Python: one request for each script."""

import pytest

from sandboxes.testing.conformance import ProviderConformance
from tests.wire.daytona.fixtures import daytona_elsewhere, provider_of, remains  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def provider_factory(daytona_elsewhere):  # noqa: F811
    return provider_of(daytona_elsewhere, "fanfold-test/nopython:latest")


class TestDaytonaWithoutPython(ProviderConformance):
    gaps = {
        "test_a_public_network_does_not_lead_to_what_listens_on_the_hosts_loopback": (
            "the wire server's `network: public` shares this machine's network: what listens on its loopback can be reached"
        ),
    }

    @pytest.fixture(autouse=True)
    def _served(self, daytona_elsewhere):  # noqa: F811
        self.server = daytona_elsewhere

    async def left_of(self, provider, ids):
        return remains(self.server, ids)
