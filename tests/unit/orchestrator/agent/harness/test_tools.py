"""What a model reads of each tool, and what becomes of their errors. Real files and commands, below a folder."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from orchestrator.agent.harness.tools import backend_tools
from orchestrator.agent.render import ENTRIES_CAP, OUTPUT_CAP, TEXT_CAP
from sandboxes import protocol as p

Write = Callable[[str, str], Path]


async def call(backend: Any, name: str, **args: Any) -> ToolMessage:
    tool = next(tool for tool in backend_tools(backend) if tool.name == name)
    message = await tool.ainvoke({"type": "tool_call", "id": "c1", "name": name, "args": args})
    assert isinstance(message, ToolMessage)
    return message


async def text(backend: Any, name: str, **args: Any) -> str:
    message = await call(backend, name, **args)
    assert message.status == "success", message.text
    return str(message.text)


async def error(backend: Any, name: str, **args: Any) -> str:
    message = await call(backend, name, **args)
    assert message.status == "error", message.text
    return str(message.text)


class Replies(p.SandboxBackendProtocol):
    """A backend that gives one answer, whatever it is asked: for answers that are hard to bring about."""

    id = "replies"
    ls = grep = glob = write = edit = upload_files = download_files = None  # type: ignore[assignment]

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> p.ReadResult:
        return self.answer

    def execute(self, command: str, *, timeout: int | None = None) -> p.ExecuteResponse:
        return self.answer

    async def aglob(self, pattern: str, path: str | None = None) -> p.GlobResult:
        return self.answer

    async def agrep(self, *args: Any, **kwargs: Any) -> p.GrepResult:
        return self.answer


def test_every_tool_tells_the_model_what_each_argument_is() -> None:
    for tool in backend_tools(Replies(None)):
        assert tool.description
        for name, schema in tool.args.items():
            assert schema.get("description"), f"{tool.name}.{name}"


async def test_ls_shows_size_time_and_path(backend: Any, write: Write, folder: Path) -> None:
    os.utime(write("b.txt", "hello"), (0, 0))
    (folder / "a").mkdir()
    os.utime(folder / "a", (86400, 86400))
    assert await text(backend, "ls", path=".") == (
        f"           -  1970-01-02T00:00:00Z  {folder}/a/\n           5  1970-01-01T00:00:00Z  {folder}/b.txt"
    )


async def test_ls_of_an_empty_directory_says_so(backend: Any) -> None:
    assert await text(backend, "ls") == "[. is empty]"


async def test_a_long_list_says_how_many_are_left_out() -> None:
    many = p.GlobResult(matches=[p.FileInfo(path=f"/{number}") for number in range(ENTRIES_CAP + 3)])
    assert (await text(Replies(many), "glob", pattern="*")).splitlines()[-1] == "[3 more files: use a narrower pattern]"
    long = p.GlobResult(matches=[p.FileInfo(path="/" + "x" * 29_990) for _ in range(10)])
    told = await text(Replies(long), "glob", pattern="*")
    assert len(told) <= TEXT_CAP + 100
    assert told.splitlines()[-1] == "[8 more files: use a narrower pattern]"


async def test_a_name_with_control_characters_stays_on_its_line(backend: Any, write: Write, folder: Path) -> None:
    write("a\nb\x1b[31m", "x")
    assert (await text(backend, "glob", pattern="a*")) == json.dumps(f"{folder}/a\nb\x1b[31m")


async def test_read_file_numbers_the_lines(backend: Any, write: Write) -> None:
    write("f", "one\n\n\tthree\r\nfour")
    assert await text(backend, "read_file", file_path="f") == "     1\tone\n     2\t\n     3\t\tthree\r\n     4\tfour"


async def test_read_file_says_how_to_read_on(backend: Any, write: Write) -> None:
    write("f", "".join(f"line {number}\n" for number in range(1, 10)))
    assert await text(backend, "read_file", file_path="f", offset=2, limit=2) == (
        "     3\tline 3\n     4\tline 4\n[Lines 3 to 4 of 9. Read on with offset=4]"
    )
    assert await text(backend, "read_file", file_path="f", offset=7, limit=50) == "     8\tline 8\n     9\tline 9"


async def test_a_long_file_comes_in_windows_that_miss_nothing(backend: Any, write: Write) -> None:
    lines = [f"{number} {'x' * 90}" for number in range(3000)]
    write("f", "\n".join(lines) + "\n")
    seen, offset = [], 0
    while True:
        window = (await text(backend, "read_file", file_path="f", offset=offset, limit=5000)).splitlines()
        seen += [line.split("\t", 1)[1] for line in window if "\t" in line]
        if not window[-1].startswith("["):
            break
        offset = int(window[-1].removesuffix("]").split("offset=")[1])
    assert seen == lines


async def test_a_line_too_long_to_show_is_cut_and_its_rest_can_be_reached(backend: Any, write: Write) -> None:
    write("f", "é" * (TEXT_CAP + 10) + "\nnext\n")
    assert (await text(backend, "read_file", file_path="f")).splitlines()[-1] == (
        f"[Line 1 is longer than {TEXT_CAP} characters. Read on with byte_offset={2 * TEXT_CAP}; the next line has offset=1]"
    )
    write("g", "first\n" + "y" * (TEXT_CAP + 10) + "\n")
    told = (await text(backend, "read_file", file_path="g", offset=1)).splitlines()[-1]
    assert f"sed -n 2p g | cut -c{TEXT_CAP + 1}-" in told
    assert "offset=2]" in told


async def test_the_rest_of_a_long_line_can_be_reached_in_a_backend_that_reads_by_lines(backend: Any, write: Write) -> None:
    write("f", "first " + "é" * TEXT_CAP + " last")
    end = await text(backend, "read_file", file_path="f", byte_offset=6 + 2 * TEXT_CAP)
    assert end == " last"
    assert "is past the end" in await error(backend, "read_file", file_path="f", byte_offset=10**7)


async def test_an_empty_and_a_binary_file_are_described(backend: Any, folder: Path) -> None:
    (folder / "empty").touch()
    (folder / "binary").write_bytes(b"\x00\x01\x02")
    assert await text(backend, "read_file", file_path="empty") == "[empty is empty]"
    assert (await text(backend, "read_file", file_path="binary")).startswith("[binary is binary, 3 bytes, and not shown.")


async def test_a_window_cut_by_the_backend_goes_on_at_its_byte() -> None:
    data = p.FileData(content="abc", encoding="utf-8")
    answer = p.ReadResult(file_data=data, start_line=8, end_line=8, next_byte=1003)
    told = await text(Replies(answer), "read_file", file_path="f", offset=7)
    assert told == "     8\tabc\n[Line 8 goes on. Read on with byte_offset=1003]"


async def test_write_file_creates_and_never_overwrites(backend: Any, folder: Path) -> None:
    assert await text(backend, "write_file", file_path="a/b.txt", content="x\n") == f"Created {folder}/a/b.txt"
    assert "exists already" in await error(backend, "write_file", file_path="a/b.txt", content="y")
    assert (folder / "a/b.txt").read_text() == "x\n"


async def test_edit_file_says_how_often_it_replaced(backend: Any, write: Write, folder: Path) -> None:
    write("f", "a b a")
    assert "occurs 2 times" in await error(backend, "edit_file", file_path="f", old_string="a", new_string="c")
    told = await text(backend, "edit_file", file_path="f", old_string="a", new_string="c", replace_all=True)
    assert told == f"Replaced 2 occurrences in {folder}/f"
    assert "was not found" in await error(backend, "edit_file", file_path="f", old_string="zzz", new_string="")


async def test_grep_has_three_forms(backend: Any, write: Write, folder: Path) -> None:
    write("a.py", "import os\nimport re\n")
    write("b.txt", "import x (\n")
    assert await text(backend, "grep", pattern="import") == f"{folder}/a.py\n{folder}/b.txt"
    assert await text(backend, "grep", pattern="import", output_mode="count") == f"{folder}/a.py:2\n{folder}/b.txt:1"
    assert await text(backend, "grep", pattern="x (", output_mode="content") == f"{folder}/b.txt:1:import x ("
    assert await text(backend, "grep", pattern="import", glob="*.py") == f"{folder}/a.py"
    assert await text(backend, "grep", pattern="i.p.rt") == '[No line contains "i.p.rt"]'


async def test_grep_shows_the_lines_around_each_match(backend: Any, write: Write, folder: Path) -> None:
    write("a", "".join(f"{'hit' if number in (3, 6, 20) else 'line'} {number}\n" for number in range(1, 22)))
    write("b", "hit")
    told = await text(backend, "grep", pattern="hit", output_mode="content", context=2)
    assert told.splitlines() == [
        *(f"{folder}/a-{n}-line {n}" for n in (1, 2)),
        f"{folder}/a:3:hit 3",
        *(f"{folder}/a-{n}-line {n}" for n in (4, 5)),
        f"{folder}/a:6:hit 6",
        *(f"{folder}/a-{n}-line {n}" for n in (7, 8)),
        "--",
        *(f"{folder}/a-{n}-line {n}" for n in (18, 19)),
        f"{folder}/a:20:hit 20",
        f"{folder}/a-21-line 21",
        "--",
        f"{folder}/b:1:hit",
    ]


async def test_the_lines_around_many_matches_are_bounded(backend: Any, write: Write) -> None:
    for number in range(60):
        write(f"{number}", ("hit\n" + "x" * 5000 + "\n" * 60) * 3)
    told = await text(backend, "grep", pattern="hit", output_mode="content", context=50)
    assert len(told) < TEXT_CAP + 200
    assert "more lines" in told


async def test_a_context_beyond_reason_is_refused(backend: Any) -> None:
    assert "context: Input should be less than or equal to 50" in await error(backend, "grep", pattern="x", context=51)


async def test_delete_takes_files_and_folders(backend: Any, write: Write, folder: Path) -> None:
    write("a/b", "x")
    write("c", "x")
    assert await text(backend, "delete", file_path="a") == f"Deleted {folder}/a"
    assert await text(backend, "delete", file_path=f"{folder}/c") == f"Deleted {folder}/c"
    assert list(folder.iterdir()) == []
    assert "not found" in await error(backend, "delete", file_path="c")


async def test_a_backend_that_deletes_nothing_says_so() -> None:
    assert await error(Replies(None), "delete", file_path="x") == "Error: Replies cannot delete files"


def test_the_tools_work_without_a_loop(backend: Any, write: Write) -> None:
    write("f", "x")
    for tool in backend_tools(backend):
        if tool.name == "read_file":
            assert tool.invoke({"file_path": "f"}) == "     1\tx"


async def test_incomplete_searches_say_so() -> None:
    match = p.GrepMatch(path="/f", line=1, text="x")
    assert "[Incomplete: there are more matches" in await text(
        Replies(p.GrepResult(matches=[match], truncated=True)), "grep", pattern="x"
    )
    answer = p.GlobResult(matches=[], truncated=True, truncation_reason="unreadable")
    told = await text(Replies(answer), "glob", pattern="*.c")
    assert told == "[No file matches *.c]\n[Incomplete: some folders cannot be read]"


async def test_execute_ends_with_how_the_command_ended(backend: Any) -> None:
    assert await text(backend, "execute", command="echo hi") == "hi\n[Command succeeded with exit code 0]"
    assert await text(backend, "execute", command="printf no; exit 3") == "no\n[Command failed with exit code 3]"
    assert await text(backend, "execute", command="true") == "[Command succeeded with exit code 0]"


async def test_execute_says_what_is_missing_and_where_it_is() -> None:
    answer = p.ExecuteResponse(output="head\ntail", exit_code=124, truncated=True, timed_out=True, output_file="/spool/7")
    assert await text(Replies(answer), "execute", command="x", timeout=5) == (
        "head\ntail\n"
        "[Output truncated to its head and tail. All of it is in /spool/7: grep or read that]\n"
        "[The command did not end within 5 seconds and was killed, with every process it had started]\n"
        "[Command failed with exit code 124]"
    )


async def test_endless_output_is_cut_even_if_the_backend_does_not() -> None:
    told = await text(Replies(p.ExecuteResponse(output="x" * 10**6, exit_code=0)), "execute", command="x")
    assert len(told) < OUTPUT_CAP + 500
    assert "characters left out" in told
    assert told.endswith("[Command succeeded with exit code 0]")


async def test_what_is_no_unicode_is_replaced() -> None:
    told = await text(Replies(p.ExecuteResponse(output="a\udc80b", exit_code=0)), "execute", command="x")
    assert told.splitlines()[0] == "a?b"


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("read_file", {}, "file_path: Field required"),
        ("read_file", {"file_path": "f", "offset": -1}, "offset: Input should be greater than or equal to 0"),
        ("read_file", {"file_path": "f", "lines": 3}, "lines: Extra inputs are not permitted"),
        ("execute", {"command": "x", "timeout": "soon"}, "timeout: Input should be a valid integer"),
        ("grep", {"pattern": "x", "output_mode": "all"}, "output_mode: Input should be 'files_with_matches'"),
        ("ls", {"path": ["x"]}, "path: Input should be a valid string"),
    ],
)
async def test_arguments_that_are_not_valid_are_told(backend: Any, name: str, args: dict[str, Any], said: str) -> None:
    told = await error(backend, name, **args)
    assert told.startswith("Error: the arguments are not valid: ")
    assert said in told


@pytest.mark.parametrize("path", ["../x", "/a/../../etc/passwd", "a\0b"])
async def test_paths_that_lead_out_are_refused(backend: Any, path: str) -> None:
    assert "Path" in await error(backend, "read_file", file_path=path)


async def test_tools_do_not_wait_for_each_other(backend: Any) -> None:
    """Two commands that each wait for the other's file end only if they run at the same time."""
    command = "touch {0}; for i in $(seq 500); do [ -e {1} ] && exit 0; sleep 0.01; done; exit 1"
    both = (text(backend, "execute", command=command.format(*pair)) for pair in (("a", "b"), ("b", "a")))
    assert await asyncio.gather(*both) == ["[Command succeeded with exit code 0]"] * 2
