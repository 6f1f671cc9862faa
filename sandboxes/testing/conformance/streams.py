"""Checks of output while it comes: order, offsets, caps, and amounts that no memory holds."""

from __future__ import annotations

import asyncio
import resource

import pytest

from sandboxes.sandbox import CommandSpec, Sandbox, Stream
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, finished, get, ok

GIGABYTE = 1_000_000_000
FLOOD_DEADLINE = 100.0
"""Seconds within which a command that prints a gigabyte must have ended."""
FLOOD_MEMORY = 256 * 1024
"""KiB by which the client may grow meanwhile."""
OUTPUT_CAP = 1_000_000
"""Bytes that one `execute` may answer with."""
LONG_OUTPUT = 5_000_000
"""Bytes of output that no single answer can hold."""


class StreamChecks(Checks):
    """What commands print."""

    async def test_output_comes_as_it_is_printed(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("echo one; read x; echo two >&2; read x; echo three", stdin=True))
        output = command.output()
        seen = []
        async with asyncio.timeout(ANSWER_DEADLINE):
            async for chunk in output:
                seen.append((chunk.stream, chunk.offset, chunk.data))
                if len(seen) < 3:
                    await command.send(b"go\n")
        assert seen == [("stdout", 0, b"one\n"), ("stderr", 0, b"two\n"), ("stdout", 4, b"three\n")]

    async def test_the_offsets_of_the_chunks_leave_no_gap(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec(f"seq 1000000 | head -c {LONG_OUTPUT}; seq 1000 >&2"))
        at: dict[Stream, int] = {"stdout": 0, "stderr": 0}
        async with asyncio.timeout(ANSWER_DEADLINE):
            async for chunk in command.output():
                assert chunk.data
                assert chunk.offset == at[chunk.stream]
                at[chunk.stream] += len(chunk.data)
        assert at == {"stdout": LONG_OUTPUT, "stderr": 3893}

    @pytest.mark.parametrize("offset", [0, 1, 5, 9, 10])
    async def test_output_goes_on_from_an_offset(self, sandbox: Sandbox, offset: int) -> None:
        command = await sandbox.start(CommandSpec("printf 0123456789; printf abcdefghij >&2"))
        await command.wait()
        chunks = [chunk async for chunk in command.output(stdout=offset, stderr=offset)]
        assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stdout") == b"0123456789"[offset:]
        assert b"".join(chunk.data for chunk in chunks if chunk.stream == "stderr") == b"abcdefghij"[offset:]
        assert all(chunk.offset >= offset for chunk in chunks)

    async def test_two_readers_of_one_command_both_see_everything(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("seq 20000"))
        (first, _, _), (second, _, _) = await asyncio.gather(finished(command), finished(command))
        assert first == second == "".join(f"{n}\n" for n in range(1, 20001)).encode()

    async def test_an_ended_command_can_be_read_again(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("echo hello; exit 3"))
        assert await finished(command) == await finished(command)

    async def test_a_command_that_prints_nothing_has_no_chunks(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("exit 4"))
        assert [chunk async for chunk in command.output()] == []
        assert (await command.wait()).exit_code == 4

    async def test_short_output_is_whole(self, sandbox: Sandbox) -> None:
        result = await sandbox.aexecute("seq 1000")
        assert result.output == "".join(f"{n}\n" for n in range(1, 1001))
        assert (result.truncated, result.output_file) == (False, None)

    async def test_long_output_shows_its_head_and_tail_and_the_file_with_all_of_it(self, sandbox: Sandbox) -> None:
        result = await sandbox.aexecute(f"echo the head; seq 1000000 | head -c {LONG_OUTPUT}; echo the tail")
        assert result.truncated
        assert len(result.output.encode()) <= OUTPUT_CAP
        assert result.output.startswith("the head\n1\n2\n")
        assert result.output.endswith("the tail\n")
        assert result.output_file is not None
        whole = await get(sandbox, result.output_file)
        assert len(whole) == LONG_OUTPUT + len("the head\nthe tail\n")
        assert await ok(sandbox, f"wc -l < {result.output_file}")

    async def test_a_gigabyte_of_output_neither_hangs_nor_swells_the_answer(self, sandbox: Sandbox) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with asyncio.timeout(FLOOD_DEADLINE):
            result = await sandbox.aexecute(f"yes 0123456789abcde | head -c {GIGABYTE}; echo; echo the tail; exit 7")
        assert (result.exit_code, result.truncated) == (7, True)
        assert len(result.output.encode()) <= OUTPUT_CAP
        assert result.output.endswith("the tail\n")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < FLOOD_MEMORY
        assert await ok(sandbox, "echo fine") == "fine\n"

    async def test_a_gigabyte_that_is_streamed_is_counted_to_the_last_byte(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec(f"yes 0123456789abcde | head -c {GIGABYTE}"))
        received = 0
        async with asyncio.timeout(FLOOD_DEADLINE):
            async for chunk in command.output():
                received += len(chunk.data)
            result = await command.wait()
        assert result.exit_code == 0
        assert received + result.lost == GIGABYTE

    async def test_output_that_nobody_takes_delays_nobody(self, sandbox: Sandbox, place: str) -> None:
        command = await sandbox.start(CommandSpec("yes"))
        output = command.output()
        assert (await anext(output)).stream == "stdout"
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert (await sandbox.awrite(f"{place}/file", "x")).error is None
        await command.kill()
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert (await command.wait()).exit_code == 128 + 9

    async def test_what_a_command_prints_before_it_is_killed_is_kept(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("echo before; sleep 600"))
        async with asyncio.timeout(ANSWER_DEADLINE):
            async for chunk in command.output():
                assert chunk.data == b"before\n"
                await command.kill()
        assert (await finished(command))[0] == b"before\n"

    async def test_a_program_that_echoes_while_it_is_fed_does_not_lock_up(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("tee /dev/stderr", stdin=True))
        data = b"0123456789abcdef" * 250_000
        feeding = asyncio.create_task(command.send(data, eof=True))
        out, err, _ = await finished(command)
        await feeding
        assert (out == data, err == data) == (True, True)
