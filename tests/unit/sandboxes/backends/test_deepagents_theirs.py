"""Backends of the released deepagents package as ours."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from deepagents import backends as theirs
from deepagents.backends import protocol as d

from orchestrator.agent.harness.backend import can_delete
from sandboxes import protocol as p
from sandboxes.backends import FilesystemBackend
from sandboxes.backends.deepagents import from_deepagents
from sandboxes.errors import SandboxError
from tests.unit.sandboxes.backends.careless import Careless, CarelessFiles


def sandbox(**does: Any) -> p.SandboxBackendProtocol:
    adapted = from_deepagents(Careless(**does))
    assert isinstance(adapted, p.SandboxBackendProtocol)
    return adapted


def files(**does: Any) -> p.BackendProtocol:
    return from_deepagents(CarelessFiles(**does))


CALLS: dict[str, tuple[Any, ...]] = {
    "ls": ("/a",),
    "read": ("/a",),
    "grep": ("x", "/a"),
    "glob": ("*", "/a"),
    "edit": ("/a", "x", "y"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("raised", [ValueError("odd"), NotImplementedError("odd"), PermissionError(errno.EACCES, "odd")])
async def test_what_files_of_theirs_raise_over_a_path_is_a_results_error(name: str, raised: Exception) -> None:
    backend = files(**{name: raised})
    assert "odd" in getattr(backend, name)(*CALLS[name]).error
    assert "odd" in (await getattr(backend, "a" + name)(*CALLS[name])).error


@pytest.mark.parametrize("name", CALLS)
def test_a_connection_of_theirs_that_breaks_is_no_models_business(name: str) -> None:
    with pytest.raises(ConnectionError):
        getattr(files(**{name: ConnectionResetError("gone")}), name)(*CALLS[name])


@pytest.mark.parametrize("raised", [RuntimeError("quota"), ConnectionResetError("gone"), FileNotFoundError("no docker")])
@pytest.mark.parametrize("name", CALLS)
async def test_what_their_sandbox_raises_because_it_failed_is_a_sandbox_error(name: str, raised: Exception) -> None:
    with pytest.raises(SandboxError, match="Careless failed"):
        await getattr(sandbox(**{name: raised}), "a" + name)(*CALLS[name])
    with pytest.raises(SandboxError, match="Careless failed"):
        sandbox(execute=raised).execute("true")


def test_a_command_that_is_too_long_to_be_sent_can_be_mended() -> None:
    answer = sandbox(execute=OSError(errno.E2BIG, "Argument list too long")).execute("x" * 200_000)
    assert answer.exit_code == 126
    assert "longer than the sandbox takes" in answer.output


def test_a_timeout_that_their_sandbox_cannot_keep_is_refused() -> None:
    assert sandbox().execute("true").exit_code == 0
    answer = sandbox().execute("true", timeout=5)
    assert (answer.exit_code, "cannot end a command" in answer.output) == (126, True)


def test_of_endless_output_the_head_and_the_tail_are_kept() -> None:
    answer = sandbox(execute=d.ExecuteResponse("a" * 90_000 + "b" * 90_000, 1)).execute("cat")
    assert answer.truncated
    assert answer.output.startswith("a" * 50_000 + "\n... [80000 characters left out] ...\n")
    assert answer.output.endswith("b" * 50_000)


def test_an_existing_file_is_never_overwritten() -> None:
    overwriting = d.WriteResult(path="/a")
    assert sandbox(write=overwriting, execute=d.ExecuteResponse("nothing\n", 0)).write("/a", "x").path == "/a"
    for seen in ("file", "folder"):
        refused = sandbox(write=overwriting, execute=d.ExecuteResponse(seen, 0)).write("/a", "x")
        assert refused.error == p.described("/a", p.ALREADY_EXISTS)
    assert "/a" in (sandbox(write=overwriting, execute=d.ExecuteResponse("sh: not found", 127)).write("/a", "x").error or "")


def test_a_traceback_of_theirs_is_one_line_for_a_model() -> None:
    told = 'Traceback (most recent call last):\n  File "x", line 1\nOSError: [Errno 28] No space left on device\n'
    assert sandbox(write=d.WriteResult(error=told)).write("/a", "x").error == (
        "Error: OSError: [Errno 28] No space left on device"
    )


def test_entries_and_matches_are_sorted_and_absolute() -> None:
    entries: Any = [{"path": "/a/z", "is_dir": True, "size": 0, "modified_at": ""}, {"path": "b", "size": 3}]
    backend = files(
        ls=d.LsResult(entries=entries),
        glob=d.GlobResult(matches=entries, truncated=True, truncation_reason="budget"),
        grep=d.GrepResult(matches=[{"path": "z", "line": 2, "text": "x"}, {"path": "b", "line": 1, "text": "x"}]),
    )
    assert backend.ls("/a").entries == [{"path": "/a/b", "is_dir": False, "size": 3}, {"path": "/a/z/", "is_dir": True}]
    globbed = backend.glob("*", "/a")
    assert [info["path"] for info in globbed.matches or []] == ["/a/b"]
    assert (globbed.truncated, globbed.truncation_reason) == (True, "budget")
    assert [match["path"] for match in backend.grep("x", "/a").matches or []] == ["/a/b", "/a/z"]
    assert backend.grep("x", "/a", max_count=1).truncated


def test_matches_that_come_with_an_error_stay() -> None:
    found: Any = d.GrepResult(error="some files could not be read", matches=[{"path": "/a", "line": 1, "text": "x"}])
    result = files(grep=found).grep("x")
    assert (result.error, result.truncated, len(result.matches or [])) == (None, True, 1)


def test_a_window_gets_the_end_of_its_last_line_where_more_lines_follow() -> None:
    made: Any = d.ReadResult(
        file_data={"content": "a\nb", "encoding": "utf-8"}, start_line=1, end_line=2, next_offset=2, total_lines=3
    )
    assert files(read=made).read("/a.txt", 0, 2).content == "a\nb\n"


def test_text_without_line_numbers_begins_at_the_offset() -> None:
    made: Any = d.ReadResult(file_data={"content": "a\nb", "encoding": "utf-8"})
    result = files(read=made).read("/a.txt", 5, 2)
    assert (result.start_line, result.end_line, result.next_offset) == (6, 7, 7)
    assert files(read=made).read("/a.txt", 5, 9).next_offset is None


def test_the_first_format_of_theirs_is_read() -> None:
    made: Any = d.ReadResult(file_data={"content": ["a", "b"], "created_at": "2025-01-01"})  # type: ignore[typeddict-item]
    assert files(read=made).read("/a.py").file_data == {
        "content": "a\nb", "encoding": "utf-8", "mime_type": "text/x-python", "created_at": "2025-01-01",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_what_theirs_replace_by_words_is_read_from_its_bytes(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    expected = FilesystemBackend(tmp_path, virtual_mode=True).read("/a.txt")
    result = from_deepagents(theirs.FilesystemBackend(tmp_path, virtual_mode=True)).read("/a.txt")
    assert result.content == expected.content
    assert (result.start_line, result.total_lines) == (expected.start_line, expected.total_lines)


def test_every_file_of_a_batch_has_an_answer() -> None:
    backend = files(upload=[], download=[d.FileDownloadResponse("/a", b"x")])
    assert [answer.error for answer in backend.upload_files([("/a", b""), ("../b", b"")])] == [
        "Error: the backend gave no answer for this file",
        "invalid_path",
    ]
    assert [(answer.content, answer.error) for answer in backend.download_files(["../c", "/a"])] == [
        (None, "invalid_path"),
        (b"x", None),
    ]
    none = files(download=[d.FileDownloadResponse("/a")], upload=NotImplementedError())
    assert none.download_files(["/a"])[0].error == "file_not_found"
    assert "cannot do this" in (none.upload_files([("/a", b"")])[0].error or "")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("read", "/../a"), "must not contain '..'"),
        (("read", "/a\0"), "NUL"),
        (("read", "/a", -1), "must not be negative"),
        (("grep", ""), "must not be empty"),
        (("grep", "x", "/", "../*"), "contains '..'"),
        (("glob", "../*"), "contains '..'"),
        (("edit", "/a", "", "x"), "must not be empty"),
        (("write", "/a", "\ud800"), "cannot be written as UTF-8"),
    ],
)
def test_what_ours_refuse_is_not_asked_of_theirs(call: tuple[Any, ...], words: str) -> None:
    name, *arguments = call
    assert words in getattr(files(), name)(*arguments).error


def test_paths_of_this_machine_begin_in_their_root(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("needle")
    backend = from_deepagents(theirs.FilesystemBackend(tmp_path, virtual_mode=False))
    found = str(tmp_path / "a.txt")
    assert backend.read("a.txt").content == "needle"
    assert [match["path"] for match in backend.grep("needle").matches or []] == [found]
    assert [info["path"] for info in backend.glob("*.txt").matches or []] == [found]


def test_a_path_that_leads_out_of_their_root_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("hush")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    backend = from_deepagents(theirs.FilesystemBackend(tmp_path / "root", virtual_mode=True))
    assert "outside root" in (backend.read("/link").error or "")


def test_whether_theirs_can_delete_is_seen(tmp_path: Path) -> None:
    assert can_delete(from_deepagents(theirs.FilesystemBackend(tmp_path)))
    assert not can_delete(files())


def test_the_root_of_theirs_cannot_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    backend = from_deepagents(theirs.FilesystemBackend(tmp_path, virtual_mode=True))
    assert backend.delete("/").error == "Error: '/' cannot be deleted"
    assert backend.delete("//./").error == "Error: '/' cannot be deleted"
    assert (tmp_path / "a").exists()
