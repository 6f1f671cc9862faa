"""Making sandboxes on one engine: one by itself, or several that stand on the same files."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sandboxes.providers.base import SandboxHandle, SandboxSpec, lifetime_stamps
from sandboxes.providers.docker import container, images, layers, layout, lifecycle, porters, users
from sandboxes.providers.docker.engine import Engine
from sandboxes.providers.docker.stream import FirstLines
from sandboxes.providers.ids import new_sandbox_id
from sandboxes.providers.standing import to_its_end


class Maker:
    """Makes sandboxes of a default image, which is fetched when it is missing and `pull` allows that."""

    def __init__(self, engine: Engine, default_image: str, pull: images.Pull) -> None:
        self._engine = engine
        self.default_image = default_image
        self.lines = FirstLines()
        self._pull: images.Pull = pull
        self._toolbox_ready = False
        self._filling = threading.Lock()

    async def one(self, spec: SandboxSpec, labels: Mapping[str, str]) -> SandboxHandle:
        """A sandbox with nothing in its working directory. When this raises, nothing is left."""
        [plan] = await self._plans(spec, [labels], None)
        return await self._made(spec, plan)

    @asynccontextmanager
    async def several(
        self, spec: SandboxSpec, each: Sequence[Mapping[str, str]], under: container.Under
    ) -> AsyncIterator[list[Coroutine[Any, Any, SandboxHandle]]]:
        """What makes each of the sandboxes with these labels, all on the same files; to be awaited within the context.

        Raises `SandboxGone` when the owner of the files is not as it has to be. When one of them raises, nothing is left of it.
        """
        plans = await self._plans(spec, each, under)
        try:
            laying = [self._engine.run("make a layer", self._lay, spec, plan, under) for plan in plans]
            await to_its_end(_all(laying))
            await self._engine.run("look at who is forked", lambda: layers.check_owner(self._engine.api, under.owner))
        except BaseException:
            await self._removed(plans)
            raise
        owned = asyncio.ensure_future(self._engine.run("give layers an owner", self._give_owner, plans))
        try:
            yield [self._made(spec, plan, owned) for plan in plans]
        finally:
            await _quiet(owned)
            await self._engine.run("remove a porter", lambda: porters.remove(self._engine.api, plans[0].porter))

    def _lay(self, spec: SandboxSpec, plan: container.Plan, under: container.Under) -> None:
        layers.make(self._engine.api, plan, under, container.labels(plan, spec))

    def _give_owner(self, plans: Sequence[container.Plan]) -> None:
        porters.give_owner(self._engine.api, plans)

    async def _plans(
        self, spec: SandboxSpec, each: Sequence[Mapping[str, str]], under: container.Under | None
    ) -> list[container.Plan]:
        created_at, expires_at = lifetime_stamps(spec)
        ids = [new_sandbox_id() for _ in each]
        first = container.Plan(
            sandbox_id=ids[0],
            image=spec.image or self.default_image,
            user=users.NOBODY_IN_PARTICULAR,
            created_at=created_at,
            expires_at=expires_at,
            under=under,
            porter=layout.porter_name(ids[0]),
        )
        whole = await to_its_end(self._engine.run("look at an image", self._prepared, spec, first))
        return [replace(whole, sandbox_id=one, labels=dict(labels)) for one, labels in zip(ids, each, strict=True)]

    def _prepared(self, spec: SandboxSpec, plan: container.Plan) -> container.Plan:
        api = self._engine.api
        image = images.find(api, plan.image, self._pull)
        with self._filling:
            if not self._toolbox_ready or not porters.has_toolbox(api):
                porters.ensure_toolbox(api, plan.image)
                self._toolbox_ready = True
        return lifecycle.prepare(api, spec, replace(plan, unset=image.unset), image.user)

    async def _made(
        self, spec: SandboxSpec, plan: container.Plan, owned: asyncio.Future[None] | None = None
    ) -> SandboxHandle:
        """The sandbox of a plan, started when its folders are `owned`. The threads' work cannot be stopped, only awaited."""
        api = self._engine.api
        try:
            made = await to_its_end(self._engine.run("make a sandbox", lambda: lifecycle.make(api, spec, plan)))
            if owned is not None:
                await asyncio.shield(owned)
            start = self._engine.run("start a sandbox", lambda: lifecycle.start(api, spec, plan, made, self.lines))
            transport = await to_its_end(start)
        except BaseException:
            if owned is not None:
                await _quiet(owned)
            await self._removed([plan])
            raise
        data = {"transport": transport, "workdir": spec.workdir, **spec.told()}
        return SandboxHandle(layout.PROVIDER, plan.sandbox_id, plan.labels, plan.created_at, plan.expires_at, data)

    async def _removed(self, plans: Sequence[container.Plan]) -> None:
        await _all([self._engine.run("remove a sandbox", self._remove, plan.sandbox_id) for plan in plans])

    def _remove(self, sandbox_id: str) -> None:
        self.lines.drop(sandbox_id)
        lifecycle.remove(self._engine.api, sandbox_id)


async def _all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Do all of it to its end, whatever becomes of one. Raises the first error."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one


async def _quiet(work: asyncio.Future[None]) -> None:
    """Wait for the end of what somebody else hears of."""
    await asyncio.gather(asyncio.shield(work), return_exceptions=True)
