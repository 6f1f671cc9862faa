"""Providers that make no more than so many sandboxes, each for a short time, and leave none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import ClassVar, Final

import pytest

from sandboxes.providers.base import Forked, Labels, SandboxHandle, SandboxProvider, SandboxSpec, Scope, SnapshotHandle
from sandboxes.providers.daytona import DaytonaProvider
from sandboxes.providers.modal import ModalProvider

MOST: Final = 600
"""Sandboxes of one run of the kit; it makes about half as many, each for some seconds."""
LONGEST: Final = 900.0
"""Seconds that a sandbox lives at most, though whoever made it is killed."""


class _Bounded(SandboxProvider):
    """Mixed in before a provider."""

    cloud_ids: ClassVar[set[str]] = set()
    """Ids of the sandboxes and snapshots of this process."""

    async def create(
        self, spec: SandboxSpec, labels: Mapping[str, str] | None = None, *, from_snapshot: SnapshotHandle | None = None
    ) -> SandboxHandle:
        """See `SandboxProvider`."""
        made = await super().create(_short(spec), labels, from_snapshot=from_snapshot)  # type: ignore[safe-super]
        self._note(made)
        return made

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
        made = await super().fork(handle, count, spec=_short(spec) if spec else None, labels=labels, scope=scope)
        self._note(*(one for one in made if isinstance(one, SandboxHandle)))
        return made

    async def snapshot(self, handle: SandboxHandle, labels: Mapping[str, str] | None = None) -> SnapshotHandle:
        """See `SandboxProvider`."""
        made = await super().snapshot(handle, labels)
        self._note(made)
        return made

    def _note(self, *made: SandboxHandle | SnapshotHandle) -> None:
        self.cloud_ids.update(one.id for one in made)
        if len(self.cloud_ids) > MOST:
            pytest.exit(f"more than {MOST} sandboxes: something makes too many of them", returncode=3)


def _short(spec: SandboxSpec) -> SandboxSpec:
    return spec.model_copy(update={"lifetime": min(spec.lifetime, LONGEST)})


class BoundedModal(_Bounded, ModalProvider):
    """Modal, by the key in the environment."""


class BoundedDaytona(_Bounded, DaytonaProvider):
    """Daytona, by the key in the environment."""


async def _sweep(provider: _Bounded) -> list[str]:
    left = [one for one in await provider.find() if one.id in provider.cloud_ids]
    await asyncio.gather(*(provider.destroy(one) for one in left))
    kept = [one for one in await provider.find_snapshots() if one.id in provider.cloud_ids]
    for snapshot in kept:
        await provider.delete_snapshot(snapshot)
    await provider.aclose()
    return [one.id for one in (*left, *kept)]


def swept(provider: _Bounded) -> list[str]:
    """Destroy what this process has left on the platform; what that was."""
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
