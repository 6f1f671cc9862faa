"""Checks of forks: children with the parent's files, as they stand and nothing else of it, which go ways of their own."""

from __future__ import annotations

import asyncio
import json

import pytest

from sandboxes.errors import SandboxError, Unsupported
from sandboxes.providers.base import Capabilities, SandboxHandle, SandboxProvider
from sandboxes.sandbox import CommandSpec
from sandboxes.testing.conformance.base import Maker, exists, get, ok, put, until
from sandboxes.testing.conformance.dividing import ZOO, DividingChecks, picture
from sandboxes.testing.conformance.names import NAMES

LEVELS = 10
"""How deep a fork of a fork of a fork must work."""
MANY = 8
"""Children that are asked for at once."""


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
        assert await ok(sandbox, "ls -A closed 2>/dev/null; true") == ""
        assert (await sandbox.aexecute("echo x > closed/new")).exit_code != 0

    async def test_the_filesystem_scope_carries_what_was_changed_of_the_system(
        self, provider: SandboxProvider, capabilities: Capabilities, fresh: Maker
    ) -> None:
        parent = await fresh.or_refused(system="overlay", env={"KIT_TOKEN": "s3cret-value"})
        if parent is None:
            return
        await ok(parent.sandbox, "echo it > file; echo system > /usr/local/kit; rm /usr/bin/tac")
        if "filesystem" not in capabilities.fork_scopes:
            with pytest.raises(Unsupported):
                await provider.fork(parent.handle, 1, labels=fresh.labels, scope="filesystem")
            return
        children = await fresh.fork(parent.handle, 2, scope="filesystem")
        first, second = [await fresh.attach(child) for child in children]
        look = 'cat file /usr/local/kit; ls /usr/bin/tac 2>/dev/null || echo "[${KIT_TOKEN-unset}]"'
        assert await ok(first, look) == "it\nsystem\n[unset]\n"
        await ok(first, "echo first > /usr/local/kit; touch /usr/local/new; echo first > file")
        assert await ok(second, look) == "it\nsystem\n[unset]\n"
        [grandchild] = await fresh.fork(children[0], scope="filesystem")
        seen = await ok(await fresh.attach(grandchild), f"ls /usr/local/new; {look}")
        assert seen == "/usr/local/new\nfirst\nfirst\n[unset]\n"
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
