"""Forks and snapshots of the daytona provider where sandboxes are virtual machines, which the platform forks by itself."""

import pytest

from sandboxes.testing.conformance import FamilyChecks, ForkChecks, SnapshotChecks
from tests.wire.daytona.fixtures import daytona_machines_elsewhere, provider_of, remains  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def provider_factory(daytona_machines_elsewhere):  # noqa: F811
    return provider_of(daytona_machines_elsewhere)


class TestDaytonaMachines(SnapshotChecks, FamilyChecks, ForkChecks):
    @pytest.fixture(autouse=True)
    def _served(self, daytona_machines_elsewhere):  # noqa: F811
        self.server = daytona_machines_elsewhere

    async def left_of(self, provider, ids):
        return remains(self.server, ids)
