"""Commands on this machine. What they attack is in the test's own folder, and what they start they say."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from sandboxes.backends import FilesystemBackend, LocalShellBackend
from sandboxes.backends.disk.hostcommand import Output
from sandboxes.protocol import ExecuteResponse, SandboxBackendProtocol

DEADLINE = 30.0
"""Seconds within which a condition must hold, on a busy machine too."""


@pytest.fixture
def backend(tmp_path):
    return LocalShellBackend(tmp_path)


def gone(pid_file):
    """Whether the process that wrote its id there has ended."""
    pid = int(pid_file.read_text())
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def until(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def test_it_is_a_filesystem_with_commands_and_says_that_it_is_not_isolated(backend, tmp_path):
    assert isinstance(backend, FilesystemBackend)
    assert isinstance(backend, SandboxBackendProtocol)
    assert LocalShellBackend.isolated is False
    assert (backend.timeout, backend.max_output_bytes, backend.virtual_mode) == (120, 100_000, False)
    backend.write("hello.txt", "hello\n")
    assert backend.execute("cat hello.txt") == ExecuteResponse("hello\n", 0)


def test_each_has_an_id_of_its_own(tmp_path):
    assert LocalShellBackend(tmp_path).id != LocalShellBackend(tmp_path).id


def test_a_command_runs_in_the_root_whatever_the_mode(tmp_path):
    backend = LocalShellBackend(tmp_path, virtual_mode=True)
    backend.write("/here", "x")
    assert backend.execute("pwd; ls").output == f"{tmp_path}\nhere\n"


def test_output_and_errors_come_as_they_were_printed_with_the_exit_code(backend):
    assert backend.execute("echo one; echo two >&2; echo three; exit 7") == ExecuteResponse("one\ntwo\nthree\n", 7)
    assert backend.execute("printf 'caf\\351'").output == "caf\ufffd"
    assert backend.execute("kill -TERM $$").exit_code == 128 + signal.SIGTERM
    assert backend.execute("no-such-program").exit_code == 127


def test_a_command_that_reads_meets_the_end_of_its_input(backend):
    assert backend.execute("cat; echo done").output == "done\n"


def test_a_command_that_begins_with_a_dash_is_a_command(backend):
    assert backend.execute("-x").exit_code == 127


def test_a_command_may_be_longer_than_an_argument(backend):
    assert backend.execute("# " + "x" * 1_000_000 + "\necho done").output == "done\n"


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
def test_a_command_that_no_shell_can_be_given_is_answered_with_the_reason(backend, command):
    result = backend.execute(command)
    assert result.exit_code == 126
    assert result.output.startswith("Error: the command ")


def test_without_its_folder_a_command_cannot_start_and_the_answer_says_so(tmp_path):
    result = LocalShellBackend(tmp_path / "missing").execute("true")
    assert (result.exit_code, f"cannot be started in '{tmp_path}/missing'" in result.output) == (126, True)


# -- the environment


def test_nothing_but_the_path_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    output = LocalShellBackend(tmp_path, env={"MINE": "1"}).execute("env").output
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "MINE", "FANFOLD_CALL"}
    assert f"PATH={os.environ['PATH']}\n" in output


def test_a_path_of_ones_own_replaces_it(tmp_path):
    backend = LocalShellBackend(tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert backend.execute("printf %s $PATH").output == "/usr/bin:/bin"


def test_the_environment_is_inherited_when_asked_for_and_env_goes_above(tmp_path, monkeypatch):
    monkeypatch.setenv("THEIRS", "theirs")
    monkeypatch.setenv("BOTH", "theirs")
    backend = LocalShellBackend(tmp_path, env={"BOTH": "mine"}, inherit_env=True)
    assert backend.execute("echo $THEIRS $BOTH").output == "theirs mine\n"


# -- output


def test_long_output_is_its_head_and_its_tail_around_a_note(tmp_path):
    backend = LocalShellBackend(tmp_path, max_output_bytes=10)
    assert backend.execute("printf 0123456789") == ExecuteResponse("0123456789", 0)
    result = backend.execute("printf 0123456789abcdef")
    assert result == ExecuteResponse("01234\n[... 6 bytes left out ...]\nbcdef", 0, truncated=True)


@pytest.mark.parametrize("cap", [1, 2, 3, 10, 11])
@pytest.mark.parametrize("pieces", [[3] * 9, [27], [1] * 27, [12, 15]])
def test_what_is_kept_does_not_depend_on_how_it_came(cap, pieces):
    content, output = bytes(range(65, 92)), Output(cap)
    at = 0
    for length in pieces:
        output.append(content[at : at + length])
        at += length
    half = cap // 2
    kept = content[:half].decode(), content[len(content) - half :].decode()
    assert output.text() == f"{kept[0]}\n[... {27 - 2 * half} bytes left out ...]\n{kept[1]}"


def test_a_gigabyte_of_output_does_not_take_memory(backend):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = backend.execute("head -c 1000000000 /dev/zero; echo end")
    assert (result.exit_code, result.truncated, result.output.endswith("end\n")) == (0, True, True)
    assert len(result.output) < 101_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024, "KiB"


# -- the end


def test_after_the_timeout_the_whole_tree_is_killed_what_ignores_signals_or_left_the_session_too(backend, tmp_path):
    setsid = "setsid" if shutil.which("setsid") else ""
    stubborn = "trap '' TERM INT HUP; echo $$ > {}; while :; do sleep 60; done"
    (tmp_path / "child.sh").write_text(stubborn.format("child"))
    (tmp_path / "far.sh").write_text(stubborn.format("far"))
    # `wait` until both have said who they are, and then forever
    script = f"sh child.sh & {setsid} sh far.sh & until [ -s child ] && [ -s far ]; do :; done; echo ready; sleep 1000"
    result = backend.execute(script, timeout=5)
    assert result == ExecuteResponse("ready\n", 124, timed_out=True)
    until(lambda: gone(tmp_path / "child") and gone(tmp_path / "far"))


def test_the_timeout_is_that_of_the_backend_unless_the_call_has_its_own(tmp_path):
    backend = LocalShellBackend(tmp_path, timeout=0.2)
    assert backend.execute("sleep 1000").timed_out
    assert backend.execute("sleep 0.5; echo done", timeout=60) == ExecuteResponse("done\n", 0)


@pytest.mark.parametrize("timeout", [0, -1])
def test_a_timeout_must_be_positive(backend, tmp_path, timeout):
    with pytest.raises(ValueError, match="timeout"):
        LocalShellBackend(tmp_path, timeout=timeout)
    for result in (backend.execute("true", timeout=timeout), asyncio.run(backend.aexecute("true", timeout=timeout))):
        assert result == ExecuteResponse(f"Error: timeout must be more than 0 seconds, not {timeout}", 126)


def test_a_background_process_delays_nothing_and_lives_on(backend, tmp_path):
    os.mkfifo(tmp_path / "go")
    result = backend.execute("(read line < go; echo late; echo $line > done) & echo started")
    assert result == ExecuteResponse("started\n", 0)
    (tmp_path / "go").write_text("on\n")
    until(lambda: (tmp_path / "done").exists() and (tmp_path / "done").read_text() == "on\n")


def test_a_background_process_that_prints_without_end_does_not_delay_the_answer(backend, tmp_path):
    result = backend.execute("yes & echo $! > pid; exit 3")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert result.exit_code == 3


async def test_cancelling_a_command_kills_its_tree(backend, tmp_path):
    (tmp_path / "child.sh").write_text("trap '' TERM INT HUP; echo $$ > child; while :; do sleep 60; done")
    running = asyncio.create_task(backend.aexecute("sh child.sh & wait"))
    await asyncio.to_thread(until, lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(until, lambda: gone(tmp_path / "child"))


async def test_a_command_that_is_cancelled_before_it_starts_never_does(backend, tmp_path):
    running = asyncio.create_task(backend.aexecute("sleep 1000; : > ran"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not (tmp_path / "ran").exists()


async def test_many_long_commands_at_once_hold_up_neither_each_other_nor_the_files(backend, tmp_path):
    number = 40
    script = "echo > here$$; until [ -e go ]; do sleep 0.05; done; echo done"
    running = [asyncio.create_task(backend.aexecute(script)) for _ in range(number)]
    await asyncio.to_thread(until, lambda: len(list(tmp_path.glob("here*"))) == number)
    assert (await backend.awrite("go", "")).error is None
    assert [one.output for one in await asyncio.gather(*running)] == ["done\n"] * number


def test_commands_leave_no_descriptor_open(backend):
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    backend.execute("true")
    before = count()
    for script in ("true", "echo x", "sleep 1000", "x" * 200_000, "echo a\0b"):
        backend.execute(script, timeout=0.5)
    assert count() == before


def test_a_command_has_only_the_standard_descriptors(backend):
    code = "import os; print(sorted(int(name) for name in os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))"
    assert backend.execute(f'{sys.executable} -c "{code}"').output == "[0, 1, 2] 4\n"
