"""A run's sandbox as what others are made from: forked where that needs no copy, otherwise copied once, and they from that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.runs.labels import RUN_LABEL
from orchestrator.worker.lodging import Lodging
from sandboxes.errors import FanfoldSandboxError, SandboxError, SandboxGone, SandboxNotFound
from sandboxes.providers.base import SandboxHandle, SandboxSpec, Scope, SnapshotHandle

AT_ONCE = 8
"""Sandboxes that are made in one call of the provider: none of them begins before the last is there."""
CALLS = 2
"""Such calls that are under way at once."""
GO_ON_TIMEOUT = 60.0
"""Seconds after which a sandbox that may not go on, because others stand on its files, is given up."""
GO_ON_POLL = 0.5
"""Seconds between two tries."""


@dataclass(eq=False)
class _Wanted:
    spec: SandboxSpec
    labels: Mapping[str, str]
    made: asyncio.Future[SandboxHandle]


class Source:
    """Makes sandboxes with the files of a run's own, which stands still meanwhile. Used on one event loop.

    Those who ask while others are served are served together after them.
    """

    def __init__(self, lodging: Lodging, run_id: str) -> None:
        self._lodging = lodging
        self.provider = lodging.provider
        self._run_id = run_id
        self._waiting: list[_Wanted] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._stands_still = False
        self._snapshot: SnapshotHandle | None = None

    async def create(self, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        """A sandbox with the files. Raises an error of the `sandboxes` package; nothing is left of it then."""
        wanted = _Wanted(self._of_same_image(spec), labels, asyncio.get_running_loop().create_future())
        self._waiting.append(wanted)
        self._serve_more()
        return await wanted.made

    def _of_same_image(self, spec: SandboxSpec) -> SandboxSpec:
        """A Dockerfile was built for the sandbox that is copied: what its handle tells of the image is enough for a copy."""
        if spec.dockerfile is None:
            return spec
        return spec.model_copy(update={"dockerfile": None, "image": self._lodging.handle.told_spec.image})

    async def go_on(self, children: Sequence[str] = ()) -> None:
        """Let the run's sandbox go on, when nothing is left that was made from it: what these children left is destroyed.

        Raises as `SandboxProvider.resume` when it is still refused after `GO_ON_TIMEOUT`.
        """
        if not (await self.provider.capabilities()).pause:
            return
        late = time.monotonic() + GO_ON_TIMEOUT
        while True:
            self._stands_still = False
            try:
                await self.provider.resume(self._lodging.handle)
                return
            except SandboxError as exc:
                if isinstance(exc, SandboxGone | SandboxNotFound) or time.monotonic() > late:
                    raise
            await self._destroy_left(children)
            await asyncio.sleep(GO_ON_POLL)

    async def _destroy_left(self, children: Sequence[str]) -> None:
        for run_id in children:
            for found in await self.provider.find({RUN_LABEL: run_id}):
                await self.provider.destroy(found)

    async def still(self) -> None:
        """Wait until nothing is being made any more; what nobody wants by then is gone."""
        while self._serving:
            await asyncio.wait(self._serving)

    async def clear(self) -> None:
        """Destroy what was made for trials, by whoever had the run before too, and every copy: nobody uses them any more."""
        await self.still()
        own = self._lodging.handle.id
        for found in await self.provider.find({RUN_LABEL: self._run_id}):
            if found.id != own:
                await self.provider.destroy(found)
        for snapshot in await self.provider.find_snapshots({RUN_LABEL: self._run_id}):
            await self.provider.delete_snapshot(snapshot)
        self._snapshot = None

    def _serve_more(self) -> None:
        """The first call is alone: it is the one that lets the run's sandbox stand still, or makes the copy for all."""
        if self._waiting and len(self._serving) < (CALLS if self._stands_still else 1):
            serving = asyncio.create_task(self._serve())
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)

    async def _serve(self) -> None:
        while wanted := [one for one in self._waiting if not one.made.done()]:
            spec = wanted[0].spec
            batch = [one for one in wanted if one.spec == spec][:AT_ONCE]
            self._waiting = [one for one in wanted if one not in batch]
            try:
                await self._make(spec, batch)
                self._stands_still = True
                self._serve_more()
            except Exception as exc:
                for one in batch:
                    if not one.made.done():
                        one.made.set_exception(exc)

    async def _make(self, spec: SandboxSpec, batch: list[_Wanted]) -> None:
        capabilities = await self.provider.capabilities()
        if not capabilities.native_fork:
            if self._snapshot is None:  # one state for all, however late they come
                self._snapshot = await self.provider.snapshot(self._lodging.handle, await self._lodging.labels())
            await asyncio.gather(*(self._copy(spec, self._snapshot, one) for one in batch))
            return
        whole = spec.system == "overlay" and "filesystem" in capabilities.fork_scopes
        scope: Scope = "filesystem" if whole else "workspace"
        labels = [one.labels for one in batch]
        made = await self.provider.fork(self._lodging.handle, len(batch), spec=spec, labels=labels, scope=scope)
        for one, child in zip(batch, made, strict=True):
            if one.made.done():  # who wanted it does so no more
                if isinstance(child, SandboxHandle):
                    await self.provider.destroy(child)
            elif isinstance(child, FanfoldSandboxError):
                one.made.set_exception(child)
            else:
                one.made.set_result(child)

    async def _copy(self, spec: SandboxSpec, snapshot: SnapshotHandle, wanted: _Wanted) -> None:
        handle = await self.provider.create(spec, wanted.labels, from_snapshot=snapshot)
        if wanted.made.done():
            await self.provider.destroy(handle)
        else:
            wanted.made.set_result(handle)
