"""Checks of commands: how they start, what they see, how they end."""

from __future__ import annotations

import asyncio
import signal

import pytest

from sandboxes.sandbox import CommandSpec, Sandbox
from sandboxes.testing.conformance.base import ANSWER_DEADLINE, Checks, exists, finished, ok, until

LONG_SCRIPT = 15_500_000
"""Bytes of a command: near the 16 MB below which nothing may be refused."""
AT_ONCE = 32
"""Commands that must be able to run at the same time."""


async def run(sandbox: Sandbox, spec: CommandSpec) -> tuple[bytes, bytes, int]:
    """Stdout, stderr and exit code of a command."""
    out, err, result = await finished(await sandbox.start(spec))
    return out, err, result.exit_code


class CommandChecks(Checks):
    """Running programs in the sandbox."""

    @pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 137, 255])
    async def test_the_exit_code_is_the_commands_own(self, sandbox: Sandbox, code: int) -> None:
        result = await sandbox.aexecute(f"exit {code}")
        assert (result.exit_code, result.output, result.timed_out) == (code, "", False)

    @pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
    async def test_a_signal_ends_a_command_with_128_and_its_number(self, sandbox: Sandbox, number: signal.Signals) -> None:
        assert (await sandbox.aexecute(f"kill -{number.value} $$; exit 3")).exit_code == 128 + number

    @pytest.mark.parametrize(
        ("script", "code"), [("no-such-program-here", 127), ("/etc/passwd", 126), ("if", 2), ("-foo", 127)]
    )
    async def test_what_cannot_run_ends_as_in_a_shell(self, sandbox: Sandbox, script: str, code: int) -> None:
        result = await sandbox.aexecute(script)
        assert result.exit_code == code
        assert result.output != ""

    async def test_the_output_holds_both_streams_in_the_order_of_writing(self, sandbox: Sandbox) -> None:
        script = "i=0; while [ $i -lt 100 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"
        assert await ok(sandbox, script) == "".join(f"out{n}\nerr{n}\n" for n in range(100))

    async def test_a_merged_command_keeps_the_order_in_stdout(self, sandbox: Sandbox) -> None:
        out, err, _ = await run(sandbox, CommandSpec("echo 1; echo 2 >&2; echo 3", merge=True))
        assert (out, err) == (b"1\n2\n3\n", b"")

    async def test_the_streams_of_a_command_are_kept_apart(self, sandbox: Sandbox) -> None:
        out, err, code = await run(sandbox, CommandSpec("echo out; echo err >&2; exit 3"))
        assert (out, err, code) == (b"out\n", b"err\n", 3)

    async def test_output_that_is_not_utf8_is_shown_with_replacements_and_streamed_as_it_is(self, sandbox: Sandbox) -> None:
        script = r"printf 'caf\351 \377\n'"
        assert await ok(sandbox, script) == "caf\ufffd \ufffd\n"
        assert (await run(sandbox, CommandSpec(script)))[0] == b"caf\xe9 \xff\n"

    async def test_output_without_a_newline_at_its_end_stays_so(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "printf 'a\\nb'") == "a\nb"

    async def test_commands_start_in_the_working_directory(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "pwd") == sandbox.workdir + "\n"

    async def test_a_command_starts_where_it_is_told(self, sandbox: Sandbox, place: str) -> None:
        await ok(sandbox, f"mkdir '{place}/it is here'")
        out, _, _ = await run(sandbox, CommandSpec("pwd", cwd=f"{place}/it is here"))
        assert out.decode() == f"{place}/it is here\n"

    async def test_a_missing_start_folder_is_said(self, sandbox: Sandbox, place: str) -> None:
        out, err, code = await run(sandbox, CommandSpec("pwd", cwd=f"{place}/missing"))
        assert code != 0
        assert f"{place}/missing" in (out + err).decode()

    async def test_a_command_sees_the_environment_it_is_given_and_no_other_does(self, sandbox: Sandbox) -> None:
        value = "two words, größe,\nnew line, $HOME \"'"
        out, _, _ = await run(sandbox, CommandSpec('printf %s "$KIT_VALUE"', env={"KIT_VALUE": value}))
        assert out.decode() == value
        assert await ok(sandbox, 'printf %s "${KIT_VALUE-unset}"') == "unset"

    async def test_what_a_command_does_to_itself_ends_with_it(self, sandbox: Sandbox) -> None:
        await ok(sandbox, "cd /; export KIT_LEFT=1; umask 077; ulimit -n 64")
        assert await ok(sandbox, 'pwd; echo "${KIT_LEFT-unset}"') == f"{sandbox.workdir}\nunset\n"

    async def test_words_reach_a_program_as_they_are(self, sandbox: Sandbox) -> None:
        words = ["printf", "<%s>", "$HOME", "a b", "*", "", "-n", "ü\n", "`id`", '"', "caf\udce9"]
        out, _, code = await run(sandbox, CommandSpec(words))
        assert code == 0
        assert out == "".join(f"<{word}>" for word in words[2:]).encode("utf-8", "surrogateescape")

    async def test_words_without_a_program_end_with_127(self, sandbox: Sandbox) -> None:
        out, err, code = await run(sandbox, CommandSpec(["no-such-program-here", "x"]))
        assert code == 127
        assert b"no-such-program-here" in out + err

    async def test_a_script_of_many_lines_runs_as_one(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "f() {\n  cat <<EOF\n$1 'x' \"y\"\nEOF\n}\nf one\nf two\n") == "one 'x' \"y\"\ntwo 'x' \"y\"\n"

    @pytest.mark.parametrize("size", [131_072, 2_000_000, LONG_SCRIPT])
    async def test_a_very_long_command_runs(self, sandbox: Sandbox, size: int) -> None:
        filler = "x" * 70 + "\n: "
        script = ": " + filler * (size // len(filler)) + "\necho done $#"
        assert await ok(sandbox, script) == "done 0\n"

    async def test_stdin_is_empty_unless_asked_for(self, sandbox: Sandbox) -> None:
        assert await ok(sandbox, "cat; echo end") == "end\n"

    async def test_stdin_arrives_as_it_is_sent(self, sandbox: Sandbox) -> None:
        command = await sandbox.start(CommandSpec("while read -r line; do echo got $line; done; echo end", stdin=True))
        output = command.output()
        async with asyncio.timeout(ANSWER_DEADLINE):
            for word in ("one", "two"):
                await command.send(f"{word}\n".encode())
                assert (await anext(output)).data == f"got {word}\n".encode()
            await command.send(b"", eof=True)
            assert b"".join([chunk.data async for chunk in output]) == b"end\n"

    async def test_stdin_carries_any_bytes_and_any_amount(self, sandbox: Sandbox) -> None:
        data = bytes(range(256)) * 20_000
        command = await sandbox.start(CommandSpec("cat", stdin=True))

        async def feed() -> None:
            for start in range(0, len(data), 500_000):
                await command.send(data[start : start + 500_000])
            await command.send(b"", eof=True)

        (out, _, result), _ = await asyncio.gather(finished(command), feed())
        assert result.exit_code == 0
        assert out == data

    async def test_a_child_in_the_background_does_not_delay_the_answer(self, sandbox: Sandbox, place: str) -> None:
        script = f"(sleep 600; echo never) & echo $! > {place}/pid; echo started"
        async with asyncio.timeout(ANSWER_DEADLINE):
            result = await sandbox.aexecute(script)
        assert (result.output, result.exit_code) == ("started\n", 0)
        assert await ok(sandbox, f"kill -0 $(cat {place}/pid) && kill -9 $(cat {place}/pid) && echo was alive") == "was alive\n"

    @pytest.mark.parametrize("how", ["nohup sh -c '{}' &", "setsid sh -c '{}' &", "(setsid sh -c '{}' &)", "sh -c '{}' &"])
    async def test_a_server_that_was_left_behind_goes_on(self, sandbox: Sandbox, place: str, how: str) -> None:
        server = f"echo \\$\\$ > {place}/pid; while [ ! -e {place}/ask ]; do sleep 0.05; done; echo yes > {place}/answer"
        await ok(sandbox, "sh -c \"" + how.format(server) + "\"")
        await ok(sandbox, f": > {place}/ask")
        await until(lambda: exists(sandbox, f"{place}/answer"), "the server answers")

    async def test_many_commands_run_at_the_same_time(self, sandbox: Sandbox, place: str) -> None:
        meet = f"cd {place} && : > $KIT && while [ $(ls | wc -l) -lt {AT_ONCE} ]; do sleep 0.05; done; echo $KIT"
        commands = [sandbox.start(CommandSpec(meet, env={"KIT": f"n{n}"}, timeout=60)) for n in range(AT_ONCE)]
        results = await asyncio.gather(*(finished(command) for command in await asyncio.gather(*commands)))
        assert [out.decode().strip() for out, _, _ in results] == [f"n{n}" for n in range(AT_ONCE)]

    async def test_a_slow_command_does_not_delay_a_read(self, sandbox: Sandbox, place: str) -> None:
        await sandbox.awrite(f"{place}/file", "x")
        slow = [await sandbox.start(CommandSpec("sleep 600")) for _ in range(8)]
        async with asyncio.timeout(ANSWER_DEADLINE):
            assert (await sandbox.aread(f"{place}/file")).error is None
        for command in slow:
            await command.kill()
            assert (await command.wait()).exit_code == 128 + 9

    async def test_many_commands_leave_no_processes_behind(self, sandbox: Sandbox) -> None:
        count = "set -- /proc/[0-9]*; echo $#"
        before = int(await ok(sandbox, count))
        for _ in range(5):
            await asyncio.gather(*(sandbox.aexecute("true & (true &) ; true") for _ in range(8)))

        async def gone() -> bool:
            return int(await ok(sandbox, count)) <= before + 2

        await until(gone, "the processes of ended commands are gone")
