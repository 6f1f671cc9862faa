"""Checks of forks: children with the parent's files, as they stand and nothing else of it, which go ways of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from sandboxes.errors import ImageNotFound, InvalidSpec, SandboxError, SandboxNotFound, Unsupported
from sandboxes.providers.base import Capabilities, SandboxHandle, SandboxProvider, SandboxSpec
from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.testing.conformance import elsewhere
from sandboxes.testing.conformance.base import (
    ANSWER_DEADLINE,
    Checks,
    Maker,
    ProviderFactory,
    exists,
    get,
    ok,
    put,
    until,
)
from sandboxes.testing.conformance.names import NAMES

LEVELS = 10
"""How deep a fork of a fork of a fork must work."""
MANY = 8
"""Children that are asked for at once."""
MOMENTS = [0.0, 0.03, 0.06, 0.1, 0.15, 0.25, 0.4]
"""Seconds after which somebody who forks is killed."""

ZOO = """
mkdir -p deep/er/still empty closed shared
printf 'text\\n' > plain
printf '\\0\\377\\r\\n' > deep/binary
: > nothing
printf '#!/bin/sh\\necho ran\\n' > program
chmod 755 program
printf x > secret && chmod 600 secret
printf x > fixed && chmod 444 fixed
chmod 700 closed && printf x > closed/in
chmod 1777 shared
ln -s deep/er up
ln -s /no/such/place dangling
ln -s program "a link"
head -c 3000000 /dev/urandom > large
chmod 750 .
"""
"""Something of everything that a working directory may hold."""
PICTURE = """
find . -print0 | LC_ALL=C sort -z | xargs -0 stat -c '%n|%F|%a|%N'
find . -type f -print0 | LC_ALL=C sort -z | xargs -0 stat -c '%s %Y'
find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
"""


async def picture(sandbox: Sandbox) -> str:
    """All that is in the working directory: names, kinds, permissions, links, times and content."""
    return await ok(sandbox, PICTURE)


class DividingChecks(Checks):
    """Base of the checks of forks and of snapshots."""

    async def left_of(self, provider: SandboxProvider, ids: Sequence[str]) -> list[str]:
        """Names of what is on the platform of these sandboxes and snapshots, none of which is there any more.

        For a test class to look where the contract cannot: layers, volumes, images.
        """
        return []

    async def assert_nothing_is_left(self, provider: SandboxProvider, fresh: Maker, *ids: str) -> None:
        """Nothing is found by the labels of this check, and nothing is on the platform of these ids."""
        assert await provider.find(fresh.labels) == []
        assert await provider.find_snapshots(fresh.labels) == []
        assert await self.left_of(provider, ids) == []


class ForkChecks(DividingChecks):
    """Children of a sandbox."""

    async def test_children_have_the_files_of_their_parent_as_they_are(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, ZOO)
        before = await picture(parent.sandbox)
        for child in await fresh.fork(parent.handle, 2):
            sandbox = await fresh.attach(child)
            assert await picture(sandbox) == before
            assert await ok(sandbox, "./program; './a link'; : > deep/er/writable") == "ran\nran\n"

    async def test_files_of_any_name_are_carried(self, fresh: Maker) -> None:
        parent = await fresh()
        for name in NAMES.values():
            await put(parent.sandbox, f"{parent.sandbox.workdir}/{name}/{name}", name.encode("utf-8", "surrogateescape"))
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        for name in NAMES.values():
            content = await get(sandbox, f"{sandbox.workdir}/{name}/{name}")
            assert content == name.encode("utf-8", "surrogateescape")
        assert len((await sandbox.als(".")).entries or []) == len(NAMES)

    async def test_what_its_owner_may_not_read_is_carried_or_told_and_never_left_out(
        self, provider: SandboxProvider, fresh: Maker
    ) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "mkdir locked; echo x > locked/in; echo x > shut; chmod 000 locked shut")
        try:
            [child] = await provider.fork(parent.handle, 1, labels=fresh.labels)
        except SandboxError as exc:
            assert "shut" in str(exc) or "locked" in str(exc)
            return
        assert isinstance(child, SandboxHandle)
        seen = await ok(await fresh.attach(child), "stat -c '%n %a' locked shut; chmod 700 locked shut; cat locked/in shut")
        assert seen == "locked 0\nshut 0\nx\nx\n"

    async def test_no_change_is_seen_by_anybody_else(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker
    ) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo old > kept; echo old > changed; mkdir gone; echo old > gone/file")
        before = await picture(parent.sandbox)
        handles = await fresh.fork(parent.handle, 3)
        first, second, third = [await fresh.attach(handle) for handle in handles]
        await ok(first, "echo one >> changed; rm -r gone; echo one > new")
        await ok(second, "rm changed; mkdir changed; echo two > gone/file; chmod 700 kept")
        assert await picture(third) == before
        assert await ok(first, "cat changed new; ls") == "old\none\none\nchanged\nkept\nnew\n"
        assert await ok(second, "ls; ls changed; cat gone/file") == "changed\ngone\nkept\ntwo\n"
        if capabilities.fork_pauses:
            for handle in handles:
                await provider.destroy(handle)
            await provider.resume(parent.handle)
        again = await fresh.attach(parent.handle)
        assert await picture(again) == before
        await ok(again, "echo parent > kept")
        if not capabilities.fork_pauses:
            assert await picture(third) == before

    async def test_what_was_deleted_or_replaced_stays_so_in_every_later_fork(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "mkdir -p d/in e f; touch file d/a d/in/b e/a f/a link; ln -s d to-d")
        steps = [
            "rm file d/in/b; rm -r e; mkdir e; touch e/new",
            "rm -r d; echo now > d; rm to-d; mkdir to-d; touch to-d/x; mv f g",
            "rm d; mkdir d; rm link; ln -s e link; rm e/new; touch file",
        ]
        expected = [
            "./d ./d/a ./d/in ./e ./e/new ./f ./f/a ./link ./to-d",
            "./d ./e ./e/new ./g ./g/a ./link ./to-d ./to-d/x",
            "./d ./e ./file ./g ./g/a ./link ./to-d ./to-d/x",
        ]
        handle = parent.handle
        for step, names in zip(steps, expected, strict=True):
            [child] = await fresh.fork(handle)
            await ok(await fresh.attach(child), step)
            [handle] = await fresh.fork(child)
            seen = await ok(await fresh.attach(handle), "find . -mindepth 1 | LC_ALL=C sort | tr '\\n' ' '")
            assert seen.strip() == names

    async def test_forks_can_be_forked_ten_levels_deep(self, fresh: Maker) -> None:
        made = await fresh()
        await ok(made.sandbox, "echo 0 > last; echo 0 >> log; mkdir -p deep/er; echo 0 > deep/er/0")
        handle = made.handle
        for level in range(1, LEVELS + 1):
            [handle] = await fresh.fork(handle)
            sandbox = await fresh.attach(handle)
            before = "".join(f"{number}\n" for number in range(level))
            assert await ok(sandbox, "cat last log; ls deep/er") == f"{level - 1}\n{before}{level - 1}\n"
            await ok(sandbox, f"rm deep/er/*; echo {level} > last; echo {level} >> log; echo > deep/er/{level}")

    async def test_many_children_can_be_made_at_once(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo shared > file")
        children = await fresh.fork(parent.handle, MANY)
        assert len({child.id for child in children}) == MANY
        sandboxes = await asyncio.gather(*(fresh.attach(child) for child in children))
        await asyncio.gather(*(ok(one, f"echo {number} >> file") for number, one in enumerate(sandboxes)))
        for number, one in enumerate(sandboxes):
            assert await get(one, "file") == f"shared\n{number}\n".encode()

    async def test_a_fork_can_be_made_while_there_are_forks(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo it > file")
        await fresh.fork(parent.handle)
        [later] = await fresh.fork(parent.handle)
        assert await get(await fresh.attach(later), "file") == b"it\n"

    async def test_children_are_sandboxes_like_others(self, provider: SandboxProvider, fresh: Maker) -> None:
        parent = await fresh.handle()
        each = [{**fresh.labels, "child": str(number)} for number in range(2)]
        first, second = await fresh.fork(parent, 2, labels=each)
        assert [dict(first.labels), dict(second.labels)] == each
        assert [one.id for one in await provider.find(each[1])] == [second.id]
        [found] = await provider.find(each[0])
        assert (found.id, found.expires_at) == (first.id, first.expires_at)
        assert SandboxHandle.from_json(json.loads(json.dumps(first.to_json()))) == first
        if (await provider.capabilities()).pause:
            await provider.pause(first)
            await provider.resume(first)
        assert await ok(await fresh.attach(found), "echo fine") == "fine\n"

    async def test_processes_commands_and_their_results_are_not_carried(self, fresh: Maker) -> None:
        parent = await fresh()
        await parent.sandbox.start(CommandSpec("echo > begun; exec sleep 6543"), call_id="running")
        await (await parent.sandbox.start(CommandSpec("echo done"), call_id="ended")).wait()
        await until(lambda: exists(parent.sandbox, "begun"), "the command runs")
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        assert await exists(sandbox, "begun")
        assert [await sandbox.command(call_id) for call_id in ("running", "ended")] == [None, None]
        assert "6543" not in await ok(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; true")

    async def test_a_fork_is_made_to_the_parents_spec_without_its_environment(self, fresh: Maker) -> None:
        parent = await fresh(workdir="/workspace/own", lifetime=1234, env={"KIT_TOKEN": "s3cret-value"})
        await ok(parent.sandbox, "echo it > file")
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        assert await ok(sandbox, 'pwd; cat file; echo "[$KIT_TOKEN]"') == "/workspace/own\nit\n[]\n"
        assert child.spec == parent.handle.spec
        assert "s3cret-value" not in json.dumps(child.to_json())

    async def test_a_fork_can_be_made_to_another_spec(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "mkdir d; echo it > d/file")
        [child] = await fresh.fork(parent.handle, spec=fresh.variant(workdir="/workspace/else/where", env={"KIT": "on"}))
        sandbox = await fresh.attach(child)
        assert await ok(sandbox, 'pwd; cat d/file; echo "$KIT"; : > d/new') == "/workspace/else/where\nit\non\n"

    @pytest.mark.parametrize("limited", ["parent", "child", "both"])
    async def test_files_that_are_held_in_memory_are_carried_too(self, fresh: Maker, limited: str) -> None:
        disk = {"resources": {"disk": "64MiB"}}
        parent = await fresh.or_refused(**(disk if limited != "child" else {}))
        if parent is None:
            return
        spec = fresh.variant(**(disk if limited != "parent" else {}))
        if (await fresh.provider.capabilities()).missing(spec):
            return
        await ok(parent.sandbox, ZOO)
        before = await picture(parent.sandbox)
        children = await fresh.fork(parent.handle, 2, spec=spec)
        assert [await picture(await fresh.attach(child)) for child in children] == [before, before]

    async def test_a_fork_leaves_what_mounts_close_out(self, fresh: Maker) -> None:
        mounts = [{"target": "/workspace/closed", "mode": "hidden"}]
        parent = await fresh.or_refused(mounts=mounts)
        if parent is None:
            return
        await ok(parent.sandbox, "echo it > file")
        [child] = await fresh.fork(parent.handle)
        sandbox = await fresh.attach(child)
        assert await get(sandbox, "file") == b"it\n"
        assert (await sandbox.aexecute("ls closed")).exit_code != 0

    async def test_the_filesystem_scope_carries_what_was_changed_of_the_system(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker
    ) -> None:
        parent = await fresh.or_refused(system="overlay", env={"KIT_TOKEN": "s3cret-value"})
        if parent is None:
            return
        await ok(parent.sandbox, "echo it > file; echo system > /usr/local/kit; rm /usr/bin/env")
        if "filesystem" not in capabilities.fork_scopes:
            with pytest.raises(Unsupported):
                await provider.fork(parent.handle, 1, labels=fresh.labels, scope="filesystem")
            return
        children = await fresh.fork(parent.handle, 2, scope="filesystem")
        first, second = [await fresh.attach(child) for child in children]
        look = 'cat file /usr/local/kit; ls /usr/bin/env 2>/dev/null || echo "[${KIT_TOKEN-unset}]"'
        assert await ok(first, look) == "it\nsystem\n[unset]\n"
        await ok(first, "echo first > /usr/local/kit; touch /usr/local/new; echo first > file")
        assert await ok(second, look) == "it\nsystem\n[unset]\n"
        [grandchild] = await fresh.fork(children[0], scope="filesystem")
        assert await ok(await fresh.attach(grandchild), f"ls /usr/local/new; {look}") == "/usr/local/new\nfirst\nfirst\n[unset]\n"
        [plain] = await fresh.fork(parent.handle)
        assert (await (await fresh.attach(plain)).aexecute("ls /usr/local/kit")).exit_code != 0
        for handle in (parent.handle, *children, grandchild, plain):
            await provider.destroy(handle)
        ids = [one.id for one in (parent.handle, *children, grandchild, plain)]
        await self.assert_nothing_is_left(provider, fresh, *ids)

    async def test_the_filesystem_scope_of_a_read_only_system_is_the_workspace(self, fresh: Maker) -> None:
        parent = await fresh()
        await ok(parent.sandbox, "echo it > file")
        [child] = await fresh.fork(parent.handle, scope="filesystem")
        assert await get(await fresh.attach(child), "file") == b"it\n"

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


async def killed_after(moment: float, provider_factory: ProviderFactory, job: elsewhere.Job) -> None:
    """Let another process begin with a job, and kill it so many seconds later."""
    process = await elsewhere.begin(provider_factory, job)
    assert process.stdout is not None
    async with asyncio.timeout(ANSWER_DEADLINE):
        assert await process.stdout.readline() == b"begun\n"
    await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=moment)
    if process.returncode is None:
        process.kill()
    await process.wait()
