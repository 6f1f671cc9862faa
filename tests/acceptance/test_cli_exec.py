"""What `fanfold exec` hands through."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("code", [0, 1, 2, 7, 130])
def test_the_exit_code_is_the_commands_own(anywhere: Any, code: int) -> None:
    done = anywhere("exec", "--", "sh", "-c", f"exit {code}")

    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_each_stream_goes_where_it_belongs(anywhere: Any) -> None:
    done = anywhere("exec", "--", "sh", "-c", "echo out; echo err >&2")

    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_arguments_arrive_as_they_are(fanfold: Any) -> None:
    done = fanfold("exec", "--", "printf", "%s|", "a b", "$HOME", "*", "--", "-e", "")

    assert done.stdout == "a b|$HOME|*|--|-e||"


def test_output_is_handed_on_byte_for_byte(anywhere: Any) -> None:
    command = ["exec", "--", "printf", r"\377\000\033]0;title\007\r\n\303"]
    process = anywhere.start(*command)
    assert process.stdout is not None

    out = process.stdout.buffer.read()
    process.communicate(timeout=30)

    assert out == b"\xff\x00\x1b]0;title\x07\r\n\xc3"


def test_so_much_output_that_it_does_not_fit_events_is_whole(anywhere: Any) -> None:
    done = anywhere("exec", "--", "seq", "1000000")

    assert done.returncode == 0
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 1_000_001))


def test_it_works_on_a_copy_of_a_folder(anywhere: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("as it was")

    done = anywhere("exec", "-p", tmp_path, "-e", "WORD=changed", "--", "sh", "-c", "cat file; echo $WORD > file; cat file")

    assert done.stdout == "as it waschanged\n"
    assert (tmp_path / "file").read_text() == "as it was"


def test_a_command_that_is_not_there_is_127_as_in_a_shell(fanfold: Any) -> None:
    assert fanfold("exec", "--", "no-such-program").returncode == 127


def test_without_a_command_it_says_what_is_missing(fanfold: Any) -> None:
    done = fanfold("exec")

    assert done.returncode == 2
    assert done.stderr.startswith("fanfold: error: Missing argument")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--network", "world"], 2, "sandbox.network"),
        (["--network", "allowlist"], 2, "allowlist"),
        (["--provider", "nowhere"], 2, "nowhere"),
        (["--path", "/nowhere"], 2, "--path /nowhere: there is no such folder"),
        (["--image", "some"], 2, "image"),
        (["--timeout", "1s"], 4, "timeout of 1 s"),
    ],
)
def test_what_goes_wrong_outside_of_the_command_is_said_on_stderr(
    anywhere: Any, arguments: list[str], code: int, said: str
) -> None:
    done = anywhere("exec", *arguments, "--", "sleep", "60")

    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("fanfold: error: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_ctrl_c_ends_the_command_and_its_sandbox(anywhere: Any) -> None:
    process: subprocess.Popen[str] = anywhere.start("exec", "--", "sh", "-c", "echo begun; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    assert process.returncode == 130
    assert anywhere.sandboxes() == []
