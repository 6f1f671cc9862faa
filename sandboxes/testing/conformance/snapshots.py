"""Checks of snapshots: the files of a sandbox at a moment, which outlive it and do not change."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandboxes.errors import FanfoldSandboxError, SandboxError, SandboxNotFound
from sandboxes.providers.base import SandboxHandle, SandboxProvider, SnapshotHandle
from sandboxes.testing.conformance import elsewhere
from sandboxes.testing.conformance.base import Maker, ProviderFactory, get, ok
from sandboxes.testing.conformance.dividing import MOMENTS, ZOO, DividingChecks, killed_after, picture


class SnapshotChecks(DividingChecks):
    """Snapshots of a sandbox."""

    async def test_a_snapshot_is_what_the_files_were_whatever_becomes_of_the_sandbox(
        self, provider: SandboxProvider, fresh: Maker
    ) -> None:
        made = await fresh()
        await ok(made.sandbox, ZOO)
        before = await picture(made.sandbox)
        snapshot = await provider.snapshot(made.handle, fresh.labels)
        await ok(made.sandbox, "rm -r deep; echo more >> plain; chmod 755 .")  # it has gone on by itself
        handles = [await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)]
        await provider.destroy(made.handle)
        handles.append(await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot))
        first, second = [await fresh.attach(handle) for handle in handles]
        assert [await picture(first), await picture(second)] == [before, before]
        await ok(first, "rm -r deep; echo more >> plain; ./program")
        assert await picture(second) == before
        third = await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        assert await picture(await fresh.attach(third)) == before

    async def test_what_was_made_from_a_snapshot_outlives_it(self, provider: SandboxProvider, fresh: Maker) -> None:
        made = await fresh()
        await ok(made.sandbox, "mkdir d; echo it > d/file")
        snapshot = await provider.snapshot(made.handle, fresh.labels)
        child = await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        for _ in range(2):
            await provider.delete_snapshot(snapshot)
        assert await provider.find_snapshots(fresh.labels) == []
        with pytest.raises(SandboxError):
            await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        assert await get(await fresh.attach(child), "d/file") == b"it\n"
        [grandchild] = await fresh.fork(child)
        assert await get(await fresh.attach(grandchild), "d/file") == b"it\n"
        for handle in (made.handle, child, grandchild):
            await provider.destroy(handle)
        await self.assert_nothing_is_left(provider, fresh, snapshot.id, made.handle.id, child.id, grandchild.id)

    async def test_a_snapshot_of_a_fork_outlives_all_that_it_stands_on(self, provider: SandboxProvider, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "mkdir d; echo old > d/file; echo kept > kept; echo gone > gone")
        [child] = await fresh.fork(parent.handle)
        await ok(await fresh.attach(child), "rm gone; rm -r d; mkdir d; echo new > d/new")
        await provider.destroy(parent.handle)
        snapshot = await provider.snapshot(child, fresh.labels)
        await provider.destroy(child)
        again = await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        assert await ok(await fresh.attach(again), "find . -type f | sort; cat d/new kept") == "./d/new\n./kept\nnew\nkept\n"
        await provider.destroy(again)
        await provider.delete_snapshot(snapshot)
        await self.assert_nothing_is_left(provider, fresh, snapshot.id, parent.handle.id, child.id, again.id)

    async def test_what_its_owner_may_not_read_is_kept_or_told_and_never_left_out(
        self, provider: SandboxProvider, fresh: Maker
    ) -> None:
        made = await fresh()
        await ok(made.sandbox, "mkdir locked; echo x > locked/in; echo x > shut; chmod 000 locked shut")
        try:
            snapshot = await provider.snapshot(made.handle, fresh.labels)
        except SandboxError as exc:
            assert "shut" in str(exc) or "locked" in str(exc)
            return
        again = await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        seen = await ok(await fresh.attach(again), "stat -c '%n %a' locked shut; chmod 700 locked shut; cat locked/in shut")
        assert seen == "locked 0\nshut 0\nx\nx\n"

    async def test_snapshots_are_found_by_their_labels(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle()
        snapshots = [await provider.snapshot(handle, {**fresh.labels, "which": which}) for which in ("a", "b=ü, c")]
        assert {one.id for one in await provider.find_snapshots(fresh.labels)} == {one.id for one in snapshots}
        [found] = await provider.find_snapshots({**fresh.labels, "which": "b=ü, c"})
        assert found.id == snapshots[1].id
        assert SnapshotHandle.from_json(json.loads(json.dumps(snapshots[1].to_json()))) == snapshots[1]
        made = await provider.create(fresh.variant(), fresh.labels, from_snapshot=found)
        assert await ok(await fresh.attach(made), "ls -A") == ""

    async def test_a_sandbox_of_another_kind_can_be_made_from_a_snapshot(
        self, provider: SandboxProvider, fresh: Maker
    ) -> None:
        made = await fresh()
        await ok(made.sandbox, "mkdir d; echo it > d/file")
        snapshot = await provider.snapshot(made.handle, fresh.labels)
        variants = [fresh.variant(workdir="/workspace/other"), fresh.variant(resources={"disk": "64MiB"})]
        for spec in variants:
            if not (await provider.capabilities()).missing(spec):
                handle = await provider.create(spec, fresh.labels, from_snapshot=snapshot)
                assert await ok(await fresh.attach(handle), "cat d/file; pwd") == f"it\n{spec.workdir}\n"

    async def test_files_that_are_held_in_memory_can_be_kept(self, provider: SandboxProvider, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"disk": "64MiB"})
        if made is None:
            return
        await ok(made.sandbox, ZOO)
        snapshot = await provider.snapshot(made.handle, fresh.labels)
        again = await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        assert await picture(await fresh.attach(again)) == await picture(made.sandbox)

    async def test_a_snapshot_holds_no_secret(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle(env={"KIT_TOKEN": "s3cret-value"})
        snapshot = await provider.snapshot(handle, fresh.labels)
        assert "s3cret-value" not in json.dumps(snapshot.to_json())
        again = await provider.create(fresh.variant(), fresh.labels, from_snapshot=snapshot)
        assert await ok(await fresh.attach(again), 'echo "[$KIT_TOKEN]"') == "[]\n"

    async def test_a_forged_snapshot_reaches_nothing(self, provider: SandboxProvider, fresh: Maker) -> None:
        snapshot = await provider.snapshot(await fresh.handle(), fresh.labels)
        for id_ in ("snp-0000000000000000", "sbx-0000000000000000", "../../etc", "snp-x\0y", "-rf"):
            forged = SnapshotHandle.from_json({**snapshot.to_json(), "id": id_})
            with pytest.raises(FanfoldSandboxError):
                await provider.create(fresh.variant(), fresh.labels, from_snapshot=forged)
        assert [one.id for one in await provider.find_snapshots(fresh.labels)] == [snapshot.id]

    async def test_what_is_not_there_cannot_be_kept(self, provider: SandboxProvider, fresh: Maker) -> None:
        handle = await fresh.handle()
        await provider.destroy(handle)
        with pytest.raises(SandboxNotFound):
            await provider.snapshot(handle, fresh.labels)
        await self.assert_nothing_is_left(provider, fresh, handle.id)

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_a_snapshot_that_is_given_up_leaves_nothing(
        self, provider: SandboxProvider, fresh: Maker, moment: float
    ) -> None:
        made = await fresh()
        await ok(made.sandbox, ZOO)
        task = asyncio.create_task(provider.snapshot(made.handle, fresh.labels))
        await asyncio.wait([task], timeout=moment)
        task.cancel()
        [kept] = await asyncio.gather(task, return_exceptions=True)
        if isinstance(kept, SnapshotHandle):  # it was quicker
            await provider.delete_snapshot(kept)
        assert await provider.find_snapshots(fresh.labels) == []
        assert await ok(made.sandbox, "cat plain") == "text\n"

    @pytest.mark.parametrize("moment", MOMENTS)
    async def test_whoever_is_killed_while_it_keeps_one_leaves_nothing_that_is_not_found(
        self, provider: SandboxProvider, provider_factory: ProviderFactory, fresh: Maker, moment: float
    ) -> None:
        made = await fresh()
        await ok(made.sandbox, ZOO)
        await killed_after(moment, provider_factory, elsewhere.Job(made.handle.to_json(), "snapshot", fresh.labels))
        found = await provider.find_snapshots(fresh.labels)
        for snapshot in found:
            await provider.delete_snapshot(snapshot)
        if (await provider.capabilities()).pause:
            await provider.resume(made.handle)
        assert await ok(await fresh.attach(made.handle), "cat plain") == "text\n"
        left = [made.handle, *(SandboxHandle.from_json(one.to_json()) for one in await provider.find(fresh.labels))]
        for handle in left:
            await provider.destroy(handle)
        await self.assert_nothing_is_left(provider, fresh, made.handle.id, *(one.id for one in found))
