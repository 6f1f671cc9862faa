"""Checks of what holds between a parent and its forks while they live, when they go, and when making them is cut off."""

from __future__ import annotations

import asyncio

import pytest

from sandboxes.errors import ImageNotFound, InvalidSpec, SandboxError, SandboxNotFound
from sandboxes.providers.base import Capabilities, SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.testing.conformance import elsewhere
from sandboxes.testing.conformance.base import Maker, ProviderFactory, ok
from sandboxes.testing.conformance.dividing import MOMENTS, ZOO, DividingChecks, killed_after, picture


class FamilyChecks(DividingChecks):
    """A parent, its children, and theirs."""

    async def test_a_parent_that_its_forks_stand_on_is_paused_until_they_are_gone(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker
    ) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo it > file")
        first, second = await fresh.fork(parent.handle, 2)
        if not capabilities.fork_pauses:
            assert await ok(await fresh.attach(parent.handle), "cat file") == "it\n"
            return
        await parent.sandbox.aclose()
        for child in (first, second):
            with pytest.raises(SandboxError, match=parent.handle.id):
                await provider.resume(parent.handle)
            await provider.destroy(child)
        for _ in range(2):
            await provider.resume(parent.handle)
        assert await ok(await fresh.attach(parent.handle), "cat file") == "it\n"

    async def test_a_child_that_was_forked_stands_still_for_its_own_forks(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker
    ) -> None:
        parent = await fresh.handle()
        [child] = await fresh.fork(parent)
        [grandchild] = await fresh.fork(child)
        if not capabilities.fork_pauses:
            return
        await provider.destroy(child)
        with pytest.raises(SandboxError):  # the grandchild stands on it still
            await provider.resume(parent)
        await provider.destroy(grandchild)
        await provider.resume(parent)
        assert await ok(await fresh.attach(parent), "echo fine") == "fine\n"

    async def test_children_outlive_their_parent(self, provider: SandboxProvider, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, ZOO)
        before = await picture(parent.sandbox)
        first, second = await fresh.fork(parent.handle, 2)
        for _ in range(2):
            await provider.destroy(parent.handle)
        assert parent.handle.id not in {one.id for one in await provider.find(fresh.labels)}
        with pytest.raises(SandboxNotFound):
            await provider.attach(parent.handle)
        assert await picture(await fresh.attach(first)) == before
        [grandchild] = await fresh.fork(second)
        await provider.destroy(second)
        assert await picture(await fresh.attach(grandchild)) == before
        await asyncio.gather(*(provider.destroy(one) for one in (first, second, grandchild)))
        await self.assert_nothing_is_left(provider, fresh, parent.handle.id, first.id, second.id, grandchild.id)

    async def test_destroyed_in_any_order_forks_leave_nothing(self, provider: SandboxProvider, fresh: Maker) -> None:
        for backwards in (False, True):
            family = [await fresh.handle()]
            for _ in range(3):
                family += await fresh.fork(family[-1])
            for handle in family[::-1] if backwards else family:
                await provider.destroy(handle)
                await provider.destroy(handle)
            await self.assert_nothing_is_left(provider, fresh, *(one.id for one in family))

    async def test_children_that_cannot_be_made_are_told_and_the_parent_goes_on(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker
    ) -> None:
        missing = {"image": "fanfold.invalid/no/such:image"} if capabilities.images else {"rootfs": "/fanfold/no/such"}
        if not (capabilities.images or capabilities.rootfs):
            return
        parent = await fresh.handle()
        made = await provider.fork(parent, 2, spec=fresh.variant(**missing), labels=fresh.labels)
        assert all(isinstance(one, (ImageNotFound, SandboxError)) for one in made)
        assert len(made) == 2
        assert [one.id for one in await provider.find(fresh.labels)] == [parent.id]
        assert await ok(await fresh.attach(parent), "echo fine") == "fine\n"

    @pytest.mark.parametrize(("count", "labels"), [(0, None), (-1, None), (2, [{}]), (1, [{}, {}])])
    async def test_a_fork_that_makes_no_sense_is_refused(
        self, provider: SandboxProvider, fresh: Maker, count: int, labels: list[dict[str, str]] | None
    ) -> None:
        parent = await fresh.handle()
        with pytest.raises(InvalidSpec):
            await provider.fork(parent, count, labels=labels)
        assert await ok(await fresh.attach(parent), "echo fine") == "fine\n"

    async def test_what_is_not_there_cannot_be_forked(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle()
        await provider.destroy(handle)
        for forged in (handle.id, "sbx-0000000000000000", "../../etc", "sbx-x\0y"):
            with pytest.raises(SandboxNotFound):
                await provider.fork(SandboxHandle.from_json({**handle.to_json(), "id": forged}), 1, spec=SandboxSpec())

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_a_fork_that_is_given_up_leaves_nothing(
        self, provider: SandboxProvider, fresh: Maker, moment: float
    ) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo it > file")
        task = asyncio.create_task(provider.fork(parent.handle, 3, labels={**fresh.labels, "child": "yes"}))
        await asyncio.wait([task], timeout=moment)
        task.cancel()
        [made] = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(made, BaseException):  # it was quicker
            for one in made:
                assert isinstance(one, SandboxHandle)
                await provider.destroy(one)
            if (await provider.capabilities()).fork_pauses:
                await provider.resume(parent.handle)
        assert await provider.find({**fresh.labels, "child": "yes"}) == []
        assert await ok(await fresh.attach(parent.handle), "cat file") == "it\n"

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_whoever_is_killed_while_it_forks_leaves_nothing_that_is_not_found(
        self, provider: SandboxProvider, provider_factory: ProviderFactory, fresh: Maker, moment: float
    ) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo it > file")
        children = {**fresh.labels, "child": "yes"}
        await killed_after(moment, provider_factory, elsewhere.Job(parent.handle.to_json(), "fork", children))
        found = await provider.find(children)
        for handle in found:
            await provider.destroy(handle)
        if (await provider.capabilities()).fork_pauses:
            await provider.resume(parent.handle)
        assert await ok(await fresh.attach(parent.handle), "cat file") == "it\n"
        await provider.destroy(parent.handle)
        await self.assert_nothing_is_left(provider, fresh, parent.handle.id, *(one.id for one in found))
