"""What a provider has that is written against the five methods alone: forks and snapshots by copying pass the kit's checks."""

import dataclasses
import functools

import pytest

from sandboxes.providers import copying
from sandboxes.providers.base import SandboxProvider
from sandboxes.providers.local import LocalProvider
from sandboxes.testing.conformance import FamilyChecks, ForkChecks, SnapshotChecks


class PlainProvider(LocalProvider):
    """The local provider without its layers."""

    fork = SandboxProvider.fork
    snapshot = SandboxProvider.snapshot
    delete_snapshot = SandboxProvider.delete_snapshot
    find_snapshots = SandboxProvider.find_snapshots

    async def capabilities(self):
        found = await super().capabilities()
        return dataclasses.replace(found, fork_scopes=frozenset({"workspace"}), native_fork=False, fork_pauses=False)

    async def create(self, spec, labels=None, *, from_snapshot=None):
        if from_snapshot is not None:
            return await copying.restored(self, from_snapshot, spec, labels)
        return await super().create(spec, labels)


@pytest.fixture(scope="module")
def provider_factory(tmp_path_factory):
    return functools.partial(PlainProvider, tmp_path_factory.mktemp("home"))


class TestCopying(SnapshotChecks, FamilyChecks, ForkChecks):
    async def left_of(self, provider, ids):
        return [str(path) for id_ in ids for path in provider._sandboxes.glob(f"{id_}*")]
