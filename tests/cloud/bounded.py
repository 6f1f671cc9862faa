"""Providers that make no more than so many sandboxes, each for a short time, and leave none."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Mapping
from typing import Final

import pytest

from sandboxes.providers.base import Forked, Labels, SandboxHandle, SandboxProvider, SandboxSpec, Scope, SnapshotHandle
from sandboxes.providers.daytona import DaytonaProvider
from sandboxes.providers.modal import ModalProvider

MOST: Final = 600
"""Sandboxes of one run of the kit; it makes about half as many, each for some seconds."""
LONGEST: Final = 900.0
"""Seconds that a sandbox lives at most, though whoever made it is killed."""
MARK: Final = {"fanfold-cloud-test": str(os.getpid())}
"""Label of all of them."""


class _Bounded(SandboxProvider):
    """Mixed in before a provider."""

    _made = itertools.count(1)

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        self._count(1)
        return await super().create(_short(spec), _marked(labels), from_snapshot=from_snapshot)  # type: ignore[safe-super]

    async def fork(
        self,
        handle: SandboxHandle,
        count: int,
        *,
        spec: SandboxSpec | None = None,
        labels: Labels = None,
        scope: Scope = "workspace",
    ) -> list[Forked]:
        """See `SandboxProvider`."""
        self._count(count)
        marked = _marked(labels) if labels is None or isinstance(labels, Mapping) else [_marked(one) for one in labels]
        return await super().fork(handle, count, spec=_short(spec) if spec else None, labels=marked, scope=scope)

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`."""
        return await super().snapshot(handle, _marked(labels))

    def _count(self, made: int) -> None:
        if any(next(self._made) > MOST for _ in range(made)):
            pytest.exit(f"more than {MOST} sandboxes: something makes too many of them", returncode=3)


def _short(spec: SandboxSpec) -> SandboxSpec:
    return spec.model_copy(update={"lifetime": min(spec.lifetime, LONGEST)})


def _marked(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {**(labels or {}), **MARK}


class BoundedModal(_Bounded, ModalProvider):
    """Modal, by the key in the environment."""


class BoundedDaytona(_Bounded, DaytonaProvider):
    """Daytona, by the key in the environment."""


async def _sweep(provider: SandboxProvider) -> int:
    left = await provider.find(MARK)
    await asyncio.gather(*(provider.destroy(one) for one in left))
    for snapshot in await provider.find_snapshots(MARK):
        await provider.delete_snapshot(snapshot)
    await provider.aclose()
    return len(left)


def swept(provider: SandboxProvider) -> int:
    """Destroy what this process has left on the platform; how many sandboxes that were."""
    return asyncio.run(_sweep(provider))


class LeftInCloud:
    """For the kit: what is left is what the platform lists."""

    async def left_of(self, provider: SandboxProvider, ids: list[str]) -> list[str]:
        """Those of these ids that are there."""
        there = [*await provider.find(), *await provider.find_snapshots()]
        return [one.id for one in there if one.id in ids]


def need(*variables: str) -> None:
    """Skip a module without these variables of an account."""
    if absent := [name for name in variables if not os.environ.get(name)]:
        pytest.skip(f"no account: {', '.join(absent)} not set", allow_module_level=True)
