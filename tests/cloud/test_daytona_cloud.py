"""The daytona provider and Daytona itself."""

import functools
import os

import pytest

from sandboxes.providers.registry import DAYTONA_IMAGE_VARIABLE
from sandboxes.testing.conformance import ProviderConformance
from tests.cloud.bounded import BoundedDaytona, LeftInCloud, need, swept

need("DAYTONA_API_KEY")


@pytest.fixture(scope="module")
def provider_factory():
    made = functools.partial(BoundedDaytona, os.environ.get(DAYTONA_IMAGE_VARIABLE, ""))
    yield made
    assert swept(made()) == []


class TestDaytonaCloud(LeftInCloud, ProviderConformance):
    pass
