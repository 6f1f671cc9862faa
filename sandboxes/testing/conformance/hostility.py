"""Checks of what a client does when the inside of a sandbox turns against it: a clear answer or a clear error, in time."""

from __future__ import annotations

import asyncio

import pytest

from sandboxes.errors import SandboxError
from sandboxes.providers.base import SandboxProvider
from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, Maker, ok, walled

EVERYTHING = '"$PWD" /tmp /run /var/tmp'
"""What a command may own in a sandbox. No attack names more: were a wall missing, this machine would be behind it."""

ATTACKS = {
    "kill-everything": "kill -9 -1",
    "terminate-everything": "kill -15 -1; sleep 1",
    "stop-the-helper": "for pid in /proc/[0-9]*; do kill -9 ${pid#/proc/} 2>/dev/null; done; true",
    "delete-everything": f"rm -rf {EVERYTHING} 2>/dev/null; true",
    "truncate-everything": f"find {EVERYTHING} -xdev -type f -exec sh -c ': > \"$1\"' x {{}} \\; 2>/dev/null; true",
    "close-doors": f"mkdir -p a/b && : > a/b/c; chmod -R 000 {EVERYTHING} 2>/dev/null; true",
    "many-files": "seq 20000 | xargs touch; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done",
}


async def settled(sandbox: Sandbox) -> str:
    """Ask the sandbox for something: `answered`, or `failed` with an error of ours; anything else is a bug."""
    async with asyncio.timeout(2 * ANSWER_DEADLINE):
        try:
            await sandbox.aexecute("echo fine", timeout=5)
            await sandbox.als("/")
        except SandboxError as exc:
            assert str(exc)
            return "failed"
    return "answered"


class HostileSandboxChecks(Checks):
    """The agent in the sandbox is not our friend."""

    @pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
    async def test_an_attack_from_inside_ends_in_an_answer_or_a_clear_error(
        self, provider: SandboxProvider, fresh: Maker, attack: str
    ) -> None:
        made, witness = await fresh(), await fresh()
        await walled(made.sandbox)
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            try:
                await made.sandbox.aexecute(attack, timeout=20)
            except SandboxError as exc:
                assert str(exc)
        assert await settled(made.sandbox) in ("answered", "failed")
        assert await ok(witness.sandbox, "echo fine") == "fine\n"
        await provider.destroy(made.handle)
        assert made.handle.id not in [handle.id for handle in await provider.find(fresh.labels)]

    async def test_a_swapped_shell_fools_only_its_own_sandbox(self, fresh: Maker) -> None:
        made = await fresh(env={"PATH": "/workspace/bin:/usr/local/bin:/usr/bin:/bin"})
        script = "mkdir bin && for name in sh cat ls head stat find grep python3; do"
        await ok(made.sandbox, script + " printf '#!/bin/sh\\necho forged\\n' > bin/$name; chmod 755 bin/$name; done")
        assert await settled(made.sandbox) in ("answered", "failed")

    async def test_output_made_to_look_like_a_reply_stays_output(self, sandbox: Sandbox) -> None:
        forged = r'\000\000\000\021\000\000\000\000{"id":1,"ok":{}}\001\000\000\000\000\000\000\005///\n\033]0;owned\007'
        command = await sandbox.start(CommandSpec(f"printf '{forged}'; printf '{forged}' >&2; exit 3"))
        chunks = [chunk async for chunk in command.output()]
        assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout").startswith(b"\0\0\0\x11\0\0\0\0{")
        assert (await command.wait()).exit_code == 3
        assert await ok(sandbox, "echo fine") == "fine\n"

    async def test_output_on_every_descriptor_reaches_no_other_call(self, sandbox: Sandbox, place: str) -> None:
        script = "for fd in 3 4 5 6 7 8 9; do (echo forged >&$fd) 2>/dev/null; done; ls -l /proc/self/fd | wc -l"
        assert "forged" not in await ok(sandbox, script)
        assert (await sandbox.als(place)).entries == []

    async def test_a_file_that_changes_while_it_is_read_breaks_nothing(self, sandbox: Sandbox, place: str) -> None:
        script = (
            f"cd {place}; echo x > f; echo started; while :; do head -c 3000000 /dev/zero > f; : > f; rm -f f;"
            " mkdir f; rmdir f; mkfifo f; rm -f f; ln -s f f; rm -f f; echo x > f; done"
        )
        command = await sandbox.start(CommandSpec(script, timeout=60))
        assert (await anext(command.output())).data == b"started\n"
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            for _ in range(30):
                await sandbox.aread(f"{place}/f")
                await sandbox.adownload_files([f"{place}/f"])
                await sandbox.als(place)
                await sandbox.agrep("x", place)
        await command.kill()
        await command.wait()

    async def test_endless_and_special_files_do_not_hang_the_tools(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"cd {place} && ln -s /dev/zero zero && ln -s /dev/stdin stdin && mkfifo pipe && ln -s /proc proc")
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            for name in ("zero", "stdin", "pipe"):
                assert (await sandbox.aread(f"{place}/{name}")).error is not None
                assert (await sandbox.adownload_files([f"{place}/{name}"]))[0].error is not None
                assert (await sandbox.aedit(f"{place}/{name}", "a", "b")).error is not None
            assert (await sandbox.agrep("needle", place)).error is None

    async def test_a_sparse_file_of_a_terabyte_is_refused_rather_than_taken(self, sandbox: Sandbox, place: str) -> None:
        made = await sandbox.aexecute(f"truncate -s 1T {place}/sparse")
        if made.exit_code != 0:
            return  # a limit of the sandbox has stopped it already
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            assert (await sandbox.aread(f"{place}/sparse")).error is not None
            assert (await sandbox.aedit(f"{place}/sparse", "a", "b")).error is not None
            assert (await sandbox.agrep("needle", place)).error is None
            [download] = await sandbox.adownload_files([f"{place}/sparse"])
        assert download.error is not None
