"""The base class, over the plainest place there is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from sandboxes import protocol as p
from sandboxes.backends import KeyValueBackend
from sandboxes.backends.keyed import searching
from sandboxes.backends.keyed.entries import PathLocks
from sandboxes.backends.keyed.filedata import FileFormat
from sandboxes.portal import finished
from sandboxes.toolbox.helper import search


class Shoebox(KeyValueBackend):
    """Files in a dict: all that somebody has to write."""

    def __init__(self, *, file_format: FileFormat = "v2") -> None:
        super().__init__(file_format=file_format)
        self.files: dict[str, Any] = {}

    def load(self, path: str) -> p.FileData | None:
        return self.files.get(path)

    def save(self, files: Mapping[str, p.FileData]) -> None:
        self.files.update(files)

    def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.files.pop(path, None)

    def scan(self, prefix: str) -> Iterator[tuple[str, p.FileData]]:
        return ((path, kept) for path, kept in reversed(self.files.items()) if path.startswith(prefix))


@pytest.fixture
def box() -> Shoebox:
    return Shoebox()


def paths(found: list[p.FileInfo] | None) -> list[str]:
    return [info["path"] for info in found or []]


def test_a_written_file_is_read_back_with_its_times(box: Shoebox) -> None:
    assert box.write("/notes/a.txt", "one\ntwo\n") == p.WriteResult(path="/notes/a.txt")
    read = box.read("/notes/a.txt")
    assert read.content == "one\ntwo\n"
    assert read.total_lines == 2
    raw = box.read_raw("/notes/a.txt").data
    assert raw is not None
    assert raw["content"] == "one\ntwo\n"
    assert raw["created_at"] == raw["modified_at"]


def test_a_relative_path_begins_at_the_root(box: Shoebox) -> None:
    assert box.write("a/./b//c.txt", "x").path == "/a/b/c.txt"
    assert box.read("a/b/c.txt").content == "x"


def test_write_creates_and_never_overwrites(box: Shoebox) -> None:
    box.write("/a/b", "1")
    for path in ("/a/b", "/a", "/"):
        assert box.write(path, "2").error == f"Error: '{path}' exists already: read it and edit it, or write to another path"
    assert box.read("/a/b").content == "1"


def test_a_file_is_no_directory(box: Shoebox) -> None:
    box.write("/a", "1")
    words = "Error: '/a/b/c' has a file where a directory should be"
    assert box.write("/a/b/c", "2").error == words
    assert box.read("/a/b/c").error == words
    assert box.delete("/a/b/c").error == words
    assert box.grep("x", "/a/b/c").error == words
    assert box.glob("*", "/a/b/c").error == words
    assert box.upload_files([("/a/b/c", b"")])[0].error == "invalid_path"
    assert box.download_files(["/a/b/c"])[0].error == "invalid_path"
    assert box.ls("/a").error == "Error: '/a' is not a directory"
    assert box.ls("/a/b").error == "Error: '/a/b' is not a directory"
    assert box.glob("*", "/a").error == "Error: '/a' is not a directory"


def test_what_is_missing_is_an_error_everywhere(box: Shoebox) -> None:
    missing = "Error: File '/x' not found"
    assert box.read("/x").error == missing
    assert box.read_raw("/x").error == missing
    assert box.edit("/x", "a", "b").error == missing
    assert box.delete("/x").error == missing
    assert box.grep("a", "/x").error == missing
    assert box.glob("*", "/x").error == missing
    assert box.ls("/x").error == "Error: Directory '/x' not found"
    assert box.download_files(["/x"]) == [p.FileDownloadResponse("/x", error="file_not_found")]
    assert (box.ls("/").entries, box.glob("*").matches, box.grep("a").matches) == ([], [], [])


def test_a_folder_is_no_file(box: Shoebox) -> None:
    box.write("/a/b", "1")
    assert box.read("/a").error == "Error: '/a' is a directory"
    assert box.read("/").error == "Error: '/' is a directory"
    assert box.edit("/a", "1", "2").error == "Error: '/a' is a directory"
    assert box.upload_files([("/a", b""), ("/", b"")]) == [
        p.FileUploadResponse("/a", error="is_directory"),
        p.FileUploadResponse("/", error="is_directory"),
    ]
    assert box.download_files(["/a"])[0].error == "is_directory"


@pytest.mark.parametrize("path", ["../x", "/a/../../x", "/a/..", "", "/a\0b", "/" + "n" * 256, "/n" * 3000, "/\ud800"])
def test_a_path_that_cannot_be_is_refused_by_every_method(box: Shoebox, path: str) -> None:
    answers = [
        box.ls(path),
        box.read(path),
        box.read_raw(path),
        box.grep("x", path),
        box.glob("*", path),
        box.write(path, "x"),
        box.edit(path, "a", "b"),
        box.delete(path),
    ]
    assert all((answer.error or "").startswith("Error: ") for answer in answers)
    assert box.upload_files([(path, b"")])[0].error == "invalid_path"
    assert box.download_files([path])[0].error == "invalid_path"
    assert box.files == {}


def test_ls_shows_files_and_folders_sorted(box: Shoebox) -> None:
    box.upload_files([("/b/c/d", b""), ("/b.txt", b"12"), ("/a", b"1"), ("/b/e", b"")])
    entries = box.ls("/").entries or []
    assert paths(entries) == ["/a", "/b.txt", "/b/"]
    assert entries[2] == {"path": "/b/", "is_dir": True}
    assert (entries[1]["is_dir"], entries[1]["size"], "modified_at" in entries[1]) == (False, 2, True)
    assert paths(box.ls("/b/").entries) == ["/b/c/", "/b/e"]


def test_a_folder_goes_with_its_last_file(box: Shoebox) -> None:
    box.write("/a/b/c", "1")
    assert box.delete("/a/b/c").path == "/a/b/c"
    assert box.ls("/a").error == "Error: Directory '/a' not found"
    assert box.write("/a", "now a file").error is None


def test_delete_takes_a_folder_with_all_that_is_in_it_and_nothing_beside(box: Shoebox) -> None:
    box.upload_files([("/a/b", b""), ("/a/c/d", b""), ("/ab", b"")])
    assert box.delete("/a") == p.DeleteResult(path="/a")
    assert list(box.files) == ["/ab"]
    assert box.delete("/").error == "Error: '/' cannot be deleted"


def test_an_edit_replaces_what_is_unique_and_keeps_the_time_of_creation(box: Shoebox) -> None:
    box.files["/a"] = {"content": "x y x", "encoding": "utf-8", "created_at": "2001-01-01T00:00:00+00:00"}
    assert box.edit("/a", "y", "z") == p.EditResult(path="/a", occurrences=1)
    assert (box.edit("/a", "x", "w").error or "").startswith("Error: old_string occurs 2 times in '/a'")
    assert box.edit("/a", "x", "w", replace_all=True).occurrences == 2
    assert box.edit("/a", "nothing", "w").error == "Error: old_string was not found in '/a'"
    assert box.edit("/a", "", "w").error == "Error: old_string must not be empty"
    assert box.files["/a"]["content"] == "w z w"
    assert box.files["/a"]["created_at"] == "2001-01-01T00:00:00+00:00"
    assert box.files["/a"]["modified_at"] > "2001"


def test_only_utf8_text_can_be_edited(box: Shoebox) -> None:
    box.upload_files([("/a", b"\xff\xfe")])
    assert box.edit("/a", "a", "b").error == "Error: '/a' is not UTF-8 text: it cannot be edited"


def test_text_that_is_no_utf8_is_an_error_and_writes_nothing(box: Shoebox) -> None:
    box.write("/a", "x")
    words = "cannot be written as UTF-8"
    assert words in (box.write("/b", "\ud800").error or "")
    assert words in (box.edit("/a", "x", "\ud800").error or "")
    assert words in (box.grep("\ud800").error or "")
    assert list(box.files) == ["/a"]


def test_an_upload_overwrites_and_a_download_answers_in_order(box: Shoebox) -> None:
    box.write("/a", "old")
    made = box.files["/a"]["created_at"]
    assert [answer.error for answer in box.upload_files([("/a", b"new"), ("/b", b"\xff"), ("/a", b"newest")])] == [None] * 3
    found = box.download_files(["/b", "/none", "/a"])
    assert [answer.content for answer in found] == [b"\xff", None, b"newest"]
    assert [answer.error for answer in found] == [None, "file_not_found", None]
    assert box.files["/a"]["created_at"] == made


def test_each_file_of_an_upload_succeeds_or_fails_by_itself(box: Shoebox) -> None:
    answers = box.upload_files([("/a", b"1"), ("/a/b", b"2"), ("/c/d", b"3"), ("/c", b"4"), ("../e", b"5"), ("/f", b"6")])
    assert [answer.error for answer in answers] == [None, "invalid_path", None, "is_directory", "invalid_path", None]
    assert sorted(box.files) == ["/a", "/c/d", "/f"]


def test_grep_finds_literal_text_in_order_and_skips_what_is_no_text(box: Shoebox) -> None:
    box.upload_files([("/b/x.py", b"one (a|b)\ntwo\n(a|b)\r\n"), ("/a.txt", b"(a|b)"), ("/c.png", b"(a|b)")])
    box.upload_files([("/d", b"\0(a|b)"), ("/e", b"a")])
    assert box.grep("(a|b)").matches == [
        {"path": "/a.txt", "line": 1, "text": "(a|b)"},
        {"path": "/b/x.py", "line": 1, "text": "one (a|b)"},
        {"path": "/b/x.py", "line": 3, "text": "(a|b)"},
    ]
    assert len(box.grep("(a|b)", "/b").matches or []) == 2
    assert len(box.grep("(a|b)", "/a.txt").matches or []) == 1
    assert len(box.grep("(a|b)", glob="*.txt").matches or []) == 1
    assert box.grep("(a|b)", "/a.txt", "*.py").matches == []
    assert box.grep("").error == "Error: the pattern must not be empty"
    assert "contains '..'" in (box.grep("a", glob="../*").error or "")


def test_grep_with_a_maximum_gives_the_first_matches_and_says_that_there_are_more(box: Shoebox) -> None:
    box.upload_files([(f"/{name}", b"x\nx\n") for name in "dbca"])
    found = box.grep("x", max_count=3)
    assert [(match["path"], match["line"]) for match in found.matches or []] == [("/a", 1), ("/a", 2), ("/b", 1)]
    assert found.truncated
    assert not box.grep("x", max_count=8).truncated
    assert box.grep("x", max_count=0) == p.GrepResult(matches=[], truncated=True)


def test_glob_follows_the_rules_of_the_protocol(box: Shoebox) -> None:
    files = ("/a.py", "/src/b.py", "/src/deep/c.py", "/src/.hidden.py", "/.git/d.py", "/e.txt")
    box.upload_files([(path, b"") for path in files])
    assert paths(box.glob("*.py").matches) == ["/a.py", "/src/b.py", "/src/deep/c.py"]
    assert paths(box.glob("src/*.py").matches) == ["/src/b.py"]
    assert paths(box.glob("/*.py").matches) == ["/a.py"]
    assert paths(box.glob("**/c.py", "/src").matches) == ["/src/deep/c.py"]
    assert paths(box.glob(".*.py").matches) == ["/src/.hidden.py"]
    assert "contains '..'" in (box.glob("../*").error or "")


def test_what_somebody_else_keeps_here_breaks_nothing(box: Shoebox) -> None:
    box.write("/mine", "needle")
    box.files |= {"/odd": {"needle": 1}, "no slash": {"content": "needle"}, "/a/../b": {"content": "needle"}, "//c": None}
    assert paths(box.ls("/").entries) == ["/mine", "/odd"]
    assert paths(box.glob("*").matches) == ["/mine", "/odd"]
    assert [match["path"] for match in box.grep("needle").matches or []] == ["/mine"]
    assert "'/odd' is not kept as a file" in (box.read("/odd").error or "")
    assert "'/odd' is not kept as a file" in (box.read_raw("/odd").error or "")
    assert "'/odd' is not kept as a file" in (box.edit("/odd", "a", "b").error or "")
    assert "'/odd' is not kept as a file" in (box.download_files(["/odd"])[0].error or "")
    assert "exists already" in (box.write("/odd", "x").error or "")
    assert box.delete("/odd").error is None


def test_files_are_written_in_the_format_that_was_asked_for_and_read_in_both() -> None:
    box = Shoebox(file_format="v1")
    box.write("/a", "x\ny")
    assert box.files["/a"]["content"] == ["x", "y"]
    box.files["/b"] = {"content": "two", "encoding": "utf-8"}
    assert (box.read("/a").content, box.read("/b").content) == ("x\ny", "two")
    box.edit("/b", "two", "2")
    assert box.files["/b"]["content"] == ["2"]


def test_an_unknown_format_is_an_error_of_the_program() -> None:
    with pytest.raises(ValueError, match="file_format is 'v3'"):
        Shoebox(file_format="v3")  # type: ignore[arg-type]


def test_a_search_keeps_the_first_matches_of_very_many(box: Shoebox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MATCHES", 10)
    box.upload_files([(f"/{number:03}", b"x") for number in range(100)])
    found = box.glob("*")
    assert paths(found.matches) == [f"/{number:03}" for number in range(10)]
    assert (found.truncated, found.truncation_reason) == (True, "budget")
    lines = box.grep("x")
    assert [match["path"] for match in lines.matches or []] == [f"/{number:03}" for number in range(10)]
    assert lines.truncated


def test_a_search_ends_when_its_bytes_or_its_time_are_used_up(box: Shoebox, monkeypatch: pytest.MonkeyPatch) -> None:
    box.upload_files([(f"/{name}", b"x" * 600) for name in "dbca"])
    monkeypatch.setattr(searching, "BYTES", 1000)
    found = box.grep("x")
    assert [match["path"] for match in found.matches or []] == ["/a", "/b"]
    assert found.truncated
    monkeypatch.setattr(searching, "SECONDS", -1.0)
    assert box.grep("x") == p.GrepResult(matches=[], truncated=True)
    assert box.glob("*") == p.GlobResult(matches=[], truncated=True, truncation_reason="budget")


def test_the_limits_are_those_of_the_toolbox() -> None:
    assert (searching.MATCHES, searching.BYTES, searching.SECONDS) == (search.MATCHES, search.BYTES, search.SECONDS)


async def test_every_async_form_answers_as_the_sync_one(box: Shoebox) -> None:
    assert (await box.awrite("/a.txt", "one\n")).path == "/a.txt"
    assert (await box.aedit("/a.txt", "one", "two")).occurrences == 1
    assert (await box.aread("/a.txt")).content == "two\n"
    assert (await box.aread("/a.txt", byte_offset=1)).content == "wo\n"
    assert await box.aread_raw("/a.txt") == box.read_raw("/a.txt")
    assert await box.als("/") == box.ls("/")
    assert await box.agrep("two", "/", "*.txt", max_count=1) == box.grep("two")
    assert await box.aglob("*") == box.glob("*")
    assert (await box.aupload_files([("/b", b"1")]))[0].error is None
    assert (await box.adownload_files(["/b"]))[0].content == b"1"
    assert (await box.adelete("/b")).path == "/b"


async def test_a_subclass_that_forbids_a_method_forbids_its_async_form() -> None:
    class Guarded(Shoebox):
        def write(self, file_path: str, content: str) -> p.WriteResult:
            return p.WriteResult(error="Error: forbidden")

    guarded = Guarded()
    assert (await guarded.awrite("/a", "x")).error == "Error: forbidden"
    assert guarded.files == {}


def test_edits_in_many_threads_do_not_undo_each_other(box: Shoebox) -> None:
    box.write("/a", " ".join(f"<{number}>" for number in range(40)))
    threads = [threading.Thread(target=box.edit, args=("/a", f"<{number}>", str(number))) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert box.read("/a").content == " ".join(map(str, range(40)))


def test_a_lock_that_nobody_holds_is_forgotten() -> None:
    locks = PathLocks(threading.Lock)
    held = locks.of("/a")
    assert locks.of("/a") is held
    assert locks.of("/b") is not held
    del held
    assert not list(locks._locks.items())


def test_an_operation_that_waits_cannot_be_finished_at_once() -> None:
    with pytest.raises(RuntimeError, match="waited"):
        finished(asyncio.sleep(0))
