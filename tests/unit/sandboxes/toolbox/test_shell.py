"""The plain-exec transport over this machine's own shells: it knows nothing of Docker."""

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from sandboxes.errors import ProtocolError, SandboxError, SandboxGone
from sandboxes.sandbox import CommandSpec
from sandboxes.toolbox.calls import call_scope
from sandboxes.toolbox.shell import ShellSandbox
from sandboxes.toolbox.shell_command import ShellCommand
from sandboxes.toolbox.shell_exec import ExecResult
from sandboxes.toolbox.shell_wire import script

pytestmark = pytest.mark.skipif(shutil.which("setsid") is None, reason="this machine has no setsid")


class HereExec:
    """Runs the scripts on this machine; counts them."""

    def __init__(self):
        self.count = 0

    async def __call__(self, argv, stdin=b"", *, deadline, cap):
        self.count += 1
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(deadline):
                out, err = await process.communicate(stdin)
        except BaseException:
            process.kill()
            await process.communicate()
            raise
        if len(out) > cap:
            raise ProtocolError("too much")
        return ExecResult(process.returncode, out, err.decode("utf-8", "replace"))


async def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        await asyncio.sleep(0.02)


@pytest.fixture
def run():
    return HereExec()


@pytest.fixture
async def sandbox(tmp_path, run):
    (tmp_path / "state").mkdir()
    (tmp_path / "work").mkdir()
    async with await ShellSandbox.attach(
        run, sandbox_id="here", workdir=str(tmp_path / "work"), state=str(tmp_path / "state")
    ) as attached:
        yield attached


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


async def test_a_hundred_files_go_and_come_in_a_few_scripts(sandbox, run, work):
    files = [(f"deep/{number}", b"%d" % number * 100) for number in range(100)]
    before = run.count
    assert [response.error for response in await sandbox.aupload_files(files)] == [None] * 100
    assert [response.content for response in await sandbox.adownload_files([path for path, _ in files])] == [
        content for _, content in files
    ]
    assert run.count - before == 4


async def test_a_name_of_any_bytes_goes_through_everything(sandbox, work):
    name = os.fsdecode(b"-a \n'\"\\0101 \xff*")
    assert (await sandbox.awrite(name, "one\ntwo\n")).error is None
    assert (await sandbox.aedit(name, "two", "2")).occurrences == 1
    path = str(work / name)
    assert [entry["path"] for entry in (await sandbox.als(".")).entries] == [path]
    assert [(match["path"], match["line"]) for match in (await sandbox.agrep("2")).matches] == [(path, 2)]
    assert [match["path"] for match in (await sandbox.aglob("*")).matches] == [path]
    assert [entry.path for entry in await sandbox.manifest(".")] == [name]
    assert (await sandbox.adelete(name)).error is None
    assert list(work.iterdir()) == []


async def test_a_window_deep_in_a_long_file_is_read_without_all_of_it(sandbox, work):
    (work / "long").write_bytes(b"".join(b"%09d\n" % number for number in range(1_500_000)))
    deep = await sandbox.aread("long", offset=1_400_000, limit=2)
    assert deep.file_data["content"] == "001400000\n001400001\n"
    assert deep.total_lines == 1_500_000


async def test_a_pattern_of_several_lines_is_found_across_them(sandbox, work):
    (work / "file").write_text("zero\none\ntwo\nthree\n")
    (work / "other").write_text("two\n")
    assert [(match["line"], match["text"]) for match in (await sandbox.agrep("one\ntwo")).matches] == [(2, "one")]


async def test_names_that_look_like_patterns_are_excluded_literally(sandbox, work):
    for name in ("*", "ab", "[ab]", "a\\b"):
        (work / name).write_text("")
    assert [entry.path for entry in await sandbox.manifest(".", exclude=["*", "[ab]", "a\\b"])] == ["ab"]


async def test_an_edit_that_is_repeated_after_a_change_of_mind_answers_as_before(sandbox, work):
    (work / "file").write_text("one")
    answers = []
    for _ in range(2):
        with call_scope("call"):
            answers.append(await sandbox.aedit("file", "one", "one one"))
    assert [answer.occurrences for answer in answers] == [1, 1]
    assert (work / "file").read_text() == "one one"


async def test_an_edit_notices_what_somebody_else_wrote_meanwhile(sandbox, run, work):
    (work / "file").write_text("a b")
    real = sandbox._files.put
    others = iter(["a b other"])

    async def put(wanted):
        for text in others:
            (work / "fresh").write_text(text)
            (work / "fresh").replace(work / "file")
        return await real(wanted)

    sandbox._files.put = put
    assert (await sandbox.aedit("file", "b", "B")).error is None
    assert (work / "file").read_text() == "a B other"


async def test_an_upload_that_breaks_off_leaves_nothing(sandbox, work):
    async def broken():
        yield b"x" * 5_000_000
        raise ConnectionResetError("the source broke")

    with pytest.raises(ConnectionResetError):
        await sandbox.upload_stream("file", broken())
    assert list(work.iterdir()) == []


async def test_a_start_that_was_forestalled_never_runs(sandbox, work):
    assert await sandbox.command("later") is None
    await ShellCommand(sandbox._channel, "later").forestall()
    started = await sandbox.start(CommandSpec("touch ran"), call_id="later")
    assert (await started.wait()).exit_code == 137
    assert list(work.iterdir()) == []


async def test_giving_up_an_answer_kills_the_command(sandbox, work):
    asking = asyncio.create_task(sandbox.aexecute("echo $$ > pid; exec sleep 300"))
    await until(lambda: (work / "pid").exists() and (work / "pid").read_text())
    pid = int((work / "pid").read_text())
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: not Path(f"/proc/{pid}").exists())


def test_nothing_goes_wrong_unseen_in_the_supervisor(tmp_path):
    folder = tmp_path / "calls" / "name"
    folder.mkdir(parents=True)
    (tmp_path / "running").mkdir()
    (folder / "launch").write_text(f"echo $$ >{folder}/pid; cat; echo said; echo complained >&2; exit 3")
    watched = subprocess.Popen(
        ["/bin/sh", "-c", script("tree", "supervise"), "sh", str(folder), "name", "300", "1", "0", "1000"],
        stderr=subprocess.PIPE,
    )
    holder = folder / "holder"
    end = time.monotonic() + 20
    while not (folder / "pid").exists() or not holder.exists():
        assert time.monotonic() < end
    os.kill(int(holder.read_text()), 9)
    # A shell may tell that its alarm was killed; nothing else may be wrong.
    assert set(watched.communicate(timeout=20)[1].split()) <= {b"Killed"}
    assert (folder / "end").read_text() == "3 0 0 5 11\n"


async def test_interrupts_reach_a_command(sandbox):
    assert (await sandbox.aexecute("kill -INT $$; echo survived")).exit_code == 130


async def test_a_background_child_neither_delays_the_answer_nor_loses_what_was_said(sandbox):
    async with asyncio.timeout(20):
        answer = await sandbox.aexecute("head -c 60000 /dev/zero | tr '\\0' x; sleep 300 & echo $!")
    assert answer.output.startswith("x" * 60000)
    os.kill(int(answer.output[60000:]), 9)


async def test_after_closing_nothing_is_answered(sandbox):
    await sandbox.aclose()
    with pytest.raises(SandboxGone):
        await sandbox.als(".")


async def test_an_image_without_the_small_tools_is_told_what_it_lacks(tmp_path):
    class Bare(HereExec):
        async def __call__(self, argv, stdin=b"", *, deadline, cap):
            return ExecResult(0, b"find sha1sum ok\n")

    with pytest.raises(SandboxError, match="has no find, sha1sum"):
        await ShellSandbox.attach(Bare(), sandbox_id="bare", workdir="/w", state=str(tmp_path))


@pytest.mark.parametrize(
    "answer", [b"", b"\xff\n", b"P 0 0 0 0 0 9 9\n", b"ok\n", b"E os x\n", b"E unheard-of\n", b"P 99999 0 0 0 0 0 0\n"]
)
async def test_answers_that_make_no_sense_are_errors_of_the_sandbox(tmp_path, answer):
    answers = iter([b"ok\n", answer])

    async def lie(argv, stdin=b"", *, deadline, cap):
        return ExecResult(1, next(answers))

    sandbox = await ShellSandbox.attach(lie, sandbox_id="liar", workdir="/w", state=str(tmp_path))
    with pytest.raises(SandboxError):
        await sandbox.aexecute("true")
