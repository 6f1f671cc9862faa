"""The conformance kit: one suite that every provider passes, ours and a third party's.

In a test module, give a factory of the provider and inherit the suite:

    import functools, pytest
    from my_package import MyProvider
    from sandboxes.testing.conformance import ProviderConformance

    @pytest.fixture(scope="module")
    def provider_factory(tmp_path_factory):
        return functools.partial(MyProvider, tmp_path_factory.mktemp("home"))

    class TestMyProvider(ProviderConformance):
        spec = SandboxSpec(image="my/image")                        # optional
        gaps = {"test_a_fork_bomb_is_contained": "no cgroups yet"}  # optional

What the provider's `Capabilities` declare is checked; what they do not declare must be refused with `Unsupported`. A gap is a
strict expected failure. The groups can be inherited one by one too. Each check is harmless when the provider is broken: what
is attacked are decoys, and what is attacked from inside is first proven to be walled off. The suite needs pytest and
pytest-asyncio (`fanfold[testing]`), about four minutes, and no network.
"""

from __future__ import annotations

import pkgutil

import pytest

for _module in pkgutil.iter_modules(__path__):
    pytest.register_assert_rewrite(f"{__name__}.{_module.name}")

from sandboxes.testing.conformance.applying import ApplyChecks  # noqa: E402 - after the rewriting of asserts is set up
from sandboxes.testing.conformance.changing import ChangeChecks  # noqa: E402
from sandboxes.testing.conformance.commands import CommandChecks  # noqa: E402
from sandboxes.testing.conformance.durability import DurabilityChecks  # noqa: E402
from sandboxes.testing.conformance.families import FamilyChecks  # noqa: E402
from sandboxes.testing.conformance.forking import ForkChecks  # noqa: E402
from sandboxes.testing.conformance.hostility import HostileSandboxChecks  # noqa: E402
from sandboxes.testing.conformance.isolation import IsolationChecks  # noqa: E402
from sandboxes.testing.conformance.killing import KillChecks  # noqa: E402
from sandboxes.testing.conformance.lifecycle import LifecycleChecks  # noqa: E402
from sandboxes.testing.conformance.limits import LimitChecks  # noqa: E402
from sandboxes.testing.conformance.mounts import MountChecks  # noqa: E402
from sandboxes.testing.conformance.names import NameChecks  # noqa: E402
from sandboxes.testing.conformance.reading import ReadingChecks  # noqa: E402
from sandboxes.testing.conformance.searching import SearchChecks  # noqa: E402
from sandboxes.testing.conformance.snapshots import SnapshotChecks  # noqa: E402
from sandboxes.testing.conformance.streams import StreamChecks  # noqa: E402
from sandboxes.testing.conformance.transfers import TransferChecks  # noqa: E402
from sandboxes.testing.conformance.twins import TwinChecks  # noqa: E402
from sandboxes.testing.conformance.writing import WritingChecks  # noqa: E402


class ProviderConformance(  # pytest runs the last group first
    HostileSandboxChecks,
    LimitChecks,
    LifecycleChecks,
    SnapshotChecks,
    FamilyChecks,
    ForkChecks,
    ChangeChecks,
    ApplyChecks,
    MountChecks,
    IsolationChecks,
    TwinChecks,
    DurabilityChecks,
    StreamChecks,
    KillChecks,
    CommandChecks,
    SearchChecks,
    NameChecks,
    TransferChecks,
    WritingChecks,
    ReadingChecks,
):
    """Every check."""


__all__ = [
    "ApplyChecks",
    "ChangeChecks",
    "CommandChecks",
    "DurabilityChecks",
    "FamilyChecks",
    "ForkChecks",
    "HostileSandboxChecks",
    "IsolationChecks",
    "KillChecks",
    "LifecycleChecks",
    "LimitChecks",
    "MountChecks",
    "NameChecks",
    "ProviderConformance",
    "ReadingChecks",
    "SearchChecks",
    "SnapshotChecks",
    "StreamChecks",
    "TransferChecks",
    "TwinChecks",
    "WritingChecks",
]
