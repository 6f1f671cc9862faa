"""The daytona provider and Daytona itself."""

import pytest

from sandboxes.testing.conformance import ProviderConformance
from tests.cloud.bounded import BoundedDaytona, LeftInCloud, need, swept

need("DAYTONA_API_KEY")


@pytest.fixture(scope="module")
def provider_factory():
    yield BoundedDaytona
    assert swept(BoundedDaytona()) == 0


class TestDaytonaCloud(LeftInCloud, ProviderConformance):
    pass
