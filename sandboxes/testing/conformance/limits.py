"""Checks that what is limited is limited, and that reaching a limit hurts only the one who reached it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandboxes.errors import SandboxError
from sandboxes.providers.base import Capabilities
from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, Made, Maker, fails, finished, ok, until, walled

PIDS = 96
MEMORY = 192 * 1024 * 1024
DISK = 48 * 1024 * 1024
CPU = 0.25
BURN = 3
"""Seconds for which the processor is burnt."""

FORK_BOMB = "bomb() { bomb | bomb & }; bomb & while :; do :; done"
"""The leader forks once and then stays: a shell that cannot fork would end before its timeout."""
COUNT = "set -- /proc/[0-9]*; echo $#"


async def survives(sandbox: Sandbox) -> bool:
    """Whether the sandbox still answers, or has ended cleanly: both are allowed to who broke a limit, silence is not."""
    async with asyncio.timeout(ANSWER_DEADLINE):
        try:
            return (await sandbox.aexecute("echo fine")).output == "fine\n"
        except SandboxError:
            return True


class LimitChecks(Checks):
    """Processes, memory, disk and processor."""

    async def test_a_fork_bomb_is_contained(self, fresh: Maker) -> None:
        made = await self.defused(fresh)
        assert made is None or await survives(made.sandbox)

    async def defused(self, fresh: Maker) -> Made | None:
        """A sandbox in which a fork bomb hurt nobody else and ended with its timeout; None when it is refused."""
        made = await fresh.or_refused(resources={"pids": PIDS})
        if made is None:
            return None
        witness = await fresh()
        await walled(made.sandbox)
        bomb = asyncio.create_task(made.sandbox.aexecute(FORK_BOMB, timeout=3))
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert await ok(witness.sandbox, "echo fine") == "fine\n"
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            result = await asyncio.gather(bomb, return_exceptions=True)
        assert isinstance(result[0], SandboxError) or result[0].exit_code == 124  # type: ignore[union-attr]

        async def calm() -> bool:
            try:
                answer = await made.sandbox.aexecute(COUNT)
            except SandboxError:
                return True
            return answer.exit_code == 0 and int(answer.output) < 20

        await until(calm, "the bomb's processes are gone")
        return made

    async def test_no_more_processes_can_be_started_than_allowed(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"pids": PIDS})
        if made is None:
            return
        command = await made.sandbox.start(
            CommandSpec("i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); echo $i; done; wait", timeout=20)
        )
        started = 0
        async with asyncio.timeout(ANSWER_DEADLINE):
            async for chunk in command.output():
                if chunk.stream == "stderr":
                    await command.kill()
                else:
                    started += chunk.data.count(b"\n")
        assert started < PIDS
        assert await survives(made.sandbox)

    async def test_a_memory_hog_is_stopped(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"memory": MEMORY})
        if made is None:
            return
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            try:
                result = await made.sandbox.aexecute("head -c 2000000000 /dev/zero | tail; exit $?", timeout=50)
            except SandboxError:
                return
        assert result.exit_code not in (0, 124)
        assert await survives(made.sandbox)

    async def test_many_small_hogs_are_stopped_together(self, fresh: Maker, capabilities: Capabilities) -> None:
        made = await fresh.or_refused(resources={"memory": MEMORY})
        if made is None or capabilities.memory != "sandbox":
            return
        hog = "(head -c 60000000 /dev/zero | tail -c 60000000 | (sleep 2; cat > /dev/null); echo held) & "
        async with asyncio.timeout(2 * ANSWER_DEADLINE):
            try:
                result = await made.sandbox.aexecute(hog * 8 + "wait", timeout=50)
            except SandboxError:
                return
        assert await ok(made.sandbox, "cat /proc/meminfo > /dev/null; echo fine") == "fine\n"
        assert result.timed_out is False

    async def test_ordinary_work_fits_in_the_memory_limit(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"memory": MEMORY})
        if made is None:
            return
        assert await ok(made.sandbox, "head -c 20000000 /dev/zero | tail -c 20000000 | wc -c") == "20000000\n"

    async def test_a_full_disk_is_an_error_and_what_is_deleted_is_room_again(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"disk": DISK})
        if made is None:
            return
        sandbox = made.sandbox
        filled = await fails(sandbox, f"head -c {2 * DISK} /dev/zero > filler")
        assert "space" in filled.output or "quota" in filled.output.lower()
        written = await sandbox.awrite("more", "x" * 2_000_000)
        assert written.error is not None
        assert "space" in written.error or "quota" in written.error
        [upload] = await sandbox.aupload_files([("more", b"x" * 2_000_000)])
        assert upload.error is not None
        with pytest.raises(OSError, match=r"space|quota"):
            await sandbox.upload_stream("more", _megabytes(4))
        assert (await sandbox.als(".")).error is None
        await sandbox.adelete("filler")
        assert (await sandbox.awrite("more", "x")).error is None
        assert await ok(sandbox, "cat more; ls -A | grep -v state") == "xmore\n"

    async def test_a_full_disk_does_not_end_a_command_that_prints(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"disk": DISK})
        if made is None:
            return
        await fails(made.sandbox, f"head -c {2 * DISK} /dev/zero > filler")
        async with asyncio.timeout(ANSWER_DEADLINE):
            result = await made.sandbox.aexecute("seq 10; exit 5")
        assert (result.exit_code, result.output.split()[-1:]) == (5, ["10"])

    async def test_a_burning_command_gets_its_share_of_the_processor_and_no_more(self, fresh: Maker) -> None:
        made = await fresh.or_refused(resources={"cpu": CPU})
        if made is None:
            return
        burnt = await ok(made.sandbox, f"timeout {BURN} sh -c 'while :; do :; done'; times | tail -n 1")
        user, system = (int(word.partition("m")[0]) * 60 + float(word.partition("m")[2][:-1]) for word in burnt.split())
        assert user + system < 2 * CPU * BURN

    @pytest.mark.parametrize("resources", [{"memory": "256MiB"}, {"pids": 64}, {"disk": "64MiB"}, {"cpu": 1.5}], ids=str)
    async def test_a_limit_is_kept_or_refused(self, fresh: Maker, resources: dict[str, object]) -> None:
        made = await fresh.or_refused(resources=resources)
        if made is not None:
            out, _, result = await finished(await made.sandbox.start(CommandSpec("echo fine")))
            assert (out, result.exit_code) == (b"fine\n", 0)


async def _megabytes(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 1_000_000
