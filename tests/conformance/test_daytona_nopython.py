"""The daytona provider with an image that has no Python: one request for each script.

Of the kit what the platform has a part in; the rest is done by the scripts alone, as on docker, which passes all of it.
"""

import pytest

from sandboxes.testing.conformance import (
    CommandChecks,
    DurabilityChecks,
    KillChecks,
    LifecycleChecks,
    LimitChecks,
    StreamChecks,
)
from tests.wire.daytona.fixtures import daytona_elsewhere, provider_of, remains  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def provider_factory(daytona_elsewhere):  # noqa: F811
    return provider_of(daytona_elsewhere, "fanfold-test/nopython:latest")


class TestDaytonaWithoutPython(LimitChecks, LifecycleChecks, DurabilityChecks, StreamChecks, KillChecks, CommandChecks):
    @pytest.fixture(autouse=True)
    def _served(self, daytona_elsewhere):  # noqa: F811
        self.server = daytona_elsewhere

    async def left_of(self, provider, ids):
        return remains(self.server, ids)
