"""Forks and snapshots of the daytona provider where sandboxes are virtual machines, which the platform forks by itself."""

import pytest

from sandboxes.testing.conformance import FamilyChecks, ForkChecks, SnapshotChecks
from tests.wire.daytona.fixtures import daytona_vm_server, provider_of, remains  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def provider_factory(daytona_vm_server):  # noqa: F811
    return provider_of(daytona_vm_server)


class TestDaytonaMachines(SnapshotChecks, FamilyChecks, ForkChecks):
    @pytest.fixture(autouse=True)
    def _served(self, daytona_vm_server):  # noqa: F811
        self.server = daytona_vm_server

    async def left_of(self, provider, ids):
        return remains(self.server, ids)
