"""Checks that nothing of a command outlives its end, when it is ended by force."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable

import pytest

from sandboxes.sandbox import Command, CommandSpec, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, exists, finished, ok, until

WORKER = 'echo $$ >> "$KIT/pids"; while :; do sleep 600; done'
"""A process that never ends by itself and notes its id in `$KIT/pids`."""

TREES = {
    "child": 'sh -c "$WORKER"',
    "background": 'sh -c "$WORKER" & wait',
    "grandchildren": 'sh -c "sh -c \\"\\$WORKER\\" & sh -c \\"\\$WORKER\\" & wait"',
    "session": 'setsid sh -c "$WORKER" & wait',
    "nohup": 'nohup sh -c "$WORKER" >/dev/null 2>&1 & wait',
    "daemon": '(setsid sh -c "$WORKER" >/dev/null 2>&1 &) ; sleep 600',
    "deaf": "trap '' TERM INT HUP; sh -c \"trap '' TERM INT HUP; $WORKER\"",
    "clean-environment": 'env -i PATH="$PATH" KIT="$KIT" WORKER="$WORKER" sh -c \'sh -c "$WORKER" & wait\'',
    "respawning": 'while :; do sh -c "$WORKER"; done',
    "stopped": 'sh -c "$WORKER" & kill -STOP $!; wait',
}


async def planted(sandbox: Sandbox, place: str, tree: str, timeout: float | None = None) -> Command:
    """Start a tree of processes; returns when the first of them runs."""
    env = {"KIT": place, "WORKER": WORKER}
    script = tree if tree != TREES["stopped"] else f'echo $$ >> "$KIT/pids"; {tree}'
    command = await sandbox.start(CommandSpec(script, env=env, timeout=timeout))
    await until(lambda: exists(sandbox, f"{place}/pids"), "the processes have started")
    return command


def all_gone(sandbox: Sandbox, place: str) -> Callable[[], Awaitable[bool]]:
    """A condition: no process that noted itself is alive (a zombie is not)."""
    script = (
        f"for pid in $(cat {shlex.quote(place)}/pids); do"
        " grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && exit 1; done; exit 0"
    )

    async def condition() -> bool:
        return (await sandbox.aexecute(script)).exit_code == 0

    return condition


class KillChecks(Checks):
    """Timeouts, kills and cancellation reach the whole tree."""

    async def test_a_timeout_ends_a_command_and_keeps_what_it_said(self, sandbox: Sandbox) -> None:
        begin = time.monotonic()
        result = await sandbox.aexecute("echo before; sleep 600; echo after", timeout=1)
        assert (result.exit_code, result.timed_out, result.output) == (124, True, "before\n")
        assert time.monotonic() - begin < ANSWER_DEADLINE

    async def test_a_timeout_counts_from_the_start_and_not_from_the_last_output(self, sandbox: Sandbox) -> None:
        result = await sandbox.aexecute("while :; do echo x; sleep 0.05; done", timeout=1)
        assert (result.exit_code, result.timed_out) == (124, True)

    async def test_a_command_that_is_in_time_has_not_timed_out(self, sandbox: Sandbox) -> None:
        result = await sandbox.aexecute("exit 124", timeout=60)
        assert (result.exit_code, result.timed_out) == (124, False)

    @pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
    async def test_a_timeout_kills_the_whole_tree(self, sandbox: Sandbox, place: str, tree: str) -> None:
        command = await planted(sandbox, place, tree, timeout=1.5)
        _, _, result = await finished(command)
        assert (result.exit_code, result.timed_out) == (124, True)
        await until(all_gone(sandbox, place), "the whole tree is dead")

    @pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
    async def test_a_kill_reaches_the_whole_tree(self, sandbox: Sandbox, place: str, tree: str) -> None:
        command = await planted(sandbox, place, tree)
        await command.kill()
        async with asyncio.timeout(ANSWER_DEADLINE):
            result = await command.wait()
        assert (result.exit_code, result.timed_out) == (128 + 9, False)
        await until(all_gone(sandbox, place), "the whole tree is dead")

    async def test_killing_what_has_ended_does_nothing(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("exit 3"))
        assert (await command.wait()).exit_code == 3
        await command.kill()
        assert (await command.wait()).exit_code == 3

    async def test_giving_up_on_an_answer_kills_the_command(self, sandbox: Sandbox, place: str) -> None:
        script = f"export KIT={place} WORKER={shlex.quote(WORKER)}; {TREES['session']}"
        task = asyncio.create_task(sandbox.aexecute(script))
        await until(lambda: exists(sandbox, f"{place}/pids"), "the process has started")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(all_gone(sandbox, place), "the whole tree is dead")

    async def test_a_kill_spares_the_other_commands(self, sandbox: Sandbox) -> None:
        spared = await sandbox.start(CommandSpec("read x; echo spared", stdin=True))
        killed = await sandbox.start(CommandSpec("sleep 600"))
        await killed.kill()
        assert (await killed.wait()).exit_code == 128 + 9
        await spared.send(b"go\n")
        assert (await finished(spared))[0] == b"spared\n"

    async def test_a_stdin_that_nobody_reads_does_not_block_for_ever(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("sleep 600", stdin=True))
        feeding = asyncio.create_task(command.send(b"x" * 4_000_000))
        assert await ok(sandbox, "echo fine") == "fine\n"
        await command.kill()
        async with asyncio.timeout(ANSWER_DEADLINE):
            await asyncio.gather(feeding, return_exceptions=True)
            assert (await command.wait()).exit_code == 128 + 9
