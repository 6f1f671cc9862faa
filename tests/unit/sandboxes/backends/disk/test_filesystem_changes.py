"""What is written to disk and deleted there."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandboxes.backends import FilesystemBackend
from sandboxes.backends.disk.descriptors import DEPTH, put
from sandboxes.protocol import (
    DeleteResult,
    EditResult,
)


def paths(found):
    assert found is not None
    return [one["path"] for one in found]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_write_creates_and_never_overwrites(backend, at, root):
    assert backend.write(at("a/b/new"), "first").error is None
    result = backend.write(at("a/b/new"), "second")
    assert result.error == f"Error: '{at('a/b/new')}' exists already: read it and edit it, or write to another path"
    assert (root / "a" / "b" / "new").read_text() == "first"
    assert names(root / "a" / "b") == ["new"], "nothing else is left behind"


def test_write_where_no_file_can_be_is_an_error(backend, at, root):
    (root / "folder").mkdir()
    (root / "file").touch()
    (root / "dangling").symlink_to("nowhere")
    assert "exists already" in backend.write(at("folder"), "x").error
    assert "exists already" in backend.write(at("dangling"), "x").error
    where = at("file/below")
    assert backend.write(where, "x").error == f"Error: '{where}' has a file where a directory should be"
    assert backend.write(at("x" * 256), "x").error.endswith("has a name that is too long")
    assert backend.write(at("lone"), "\ud800").error == "Error: the content cannot be written as UTF-8: surrogates not allowed"
    assert names(root) == ["dangling", "file", "folder"]


def test_of_many_writes_of_one_file_exactly_one_wins(backend, at, root):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: backend.write(at("race"), str(number) * 100_000), range(8)))
    [winner] = [number for number, result in enumerate(results) if result.error is None]
    assert (root / "race").read_text() == str(winner) * 100_000


def test_a_file_system_without_hard_links_keeps_create_only(root, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    backend = FilesystemBackend(root, virtual_mode=True)
    assert backend.write("/new", "first").error is None
    folder = os.open(root, os.O_PATH)
    try:
        with pytest.raises(FileExistsError):
            put(folder, "new", b"second", mode=None, exclusive=True)
    finally:
        os.close(folder)
    assert (root / "new").read_text() == "first"
    assert names(root) == ["new"]


def test_edit_replaces_and_counts_and_keeps_the_mode(backend, at, root):
    (root / "run").write_text("a b a")
    (root / "run").chmod(0o751)
    assert backend.edit(at("run"), "b", "c") == EditResult(path=at("run"), occurrences=1)
    assert "2 times" in backend.edit(at("run"), "a", "x").error
    assert backend.edit(at("run"), "a", "x", replace_all=True) == EditResult(path=at("run"), occurrences=2)
    assert (root / "run").read_text() == "x c x"
    assert (root / "run").stat().st_mode & 0o777 == 0o751


def test_edit_of_what_is_no_text_is_an_error(backend, at, root):
    (root / "latin").write_bytes(b"caf\xe9")
    assert backend.edit(at("latin"), "caf", "x").error == f"Error: '{at('latin')}' is not UTF-8 text: it cannot be edited"
    assert backend.edit(at("missing"), "a", "b").error == f"Error: File '{at('missing')}' not found"
    assert (root / "latin").read_bytes() == b"caf\xe9"


def test_edits_of_one_file_at_once_are_all_kept_also_by_backends_that_a_factory_makes(root):
    (root / "text").write_text(" ".join(f"<{number}>" for number in range(64)))

    def edit(number):
        return FilesystemBackend(root, virtual_mode=True).edit("/text", f"<{number}>", f"[{number}]").error

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(edit, range(64))) == [None] * 64
    assert (root / "text").read_text() == " ".join(f"[{number}]" for number in range(64))


def test_a_reader_sees_the_file_before_or_after_an_edit_and_nothing_between(backend, at, root):
    (root / "text").write_text("a" * 500_000)
    over, seen = threading.Event(), set()

    def reading():
        while not over.is_set():
            seen.add(backend.download_files([at("text")])[0].content)

    reader = threading.Thread(target=reading)
    reader.start()
    for old, new in ["ab", "ba"] * 5:
        assert backend.edit(at("text"), old, new, replace_all=True).error is None
    over.set()
    reader.join()
    assert seen <= {b"a" * 500_000, b"b" * 500_000}


def test_upload_overwrites_and_download_gives_it_back_each_by_itself(backend, at, root):
    (root / "folder").mkdir()
    (root / "old").write_text("old")
    files = [(at("old"), b"new"), (at("folder"), b"x"), (at("old/below"), b"x"), (at("deep/er/file"), bytes(range(256)))]
    below = f"{files[2][0]}"
    assert [one.error for one in backend.upload_files(files)] == [None, "is_directory", "invalid_path", None]
    answers = backend.download_files([at("deep/er/file"), at("missing"), at("folder"), below, at("old")])
    assert [one.error for one in answers] == [None, "file_not_found", "is_directory", "invalid_path", None]
    assert (answers[0].content, answers[4].content) == (bytes(range(256)), b"new")


def test_delete_removes_a_file_and_a_folder_with_all_that_is_in_it(backend, at, root):
    (root / "tree" / "a").mkdir(parents=True)
    (root / "tree" / "a" / ".hidden").touch()
    (root / "file").touch()
    assert backend.delete(at("tree")) == DeleteResult(path=at("tree"))
    assert backend.delete(at("file")) == DeleteResult(path=at("file"))
    assert backend.delete(at("file")).error == f"Error: File '{at('file')}' not found"
    assert names(root) == []


def test_the_root_itself_cannot_be_deleted(virtual, root):
    (root / "kept").touch()
    for path in ("/", "", ".", "//", "/./"):
        assert virtual.delete(path).error is not None
    assert virtual.delete("/").error == "Error: '/' cannot be deleted"
    assert (root / "kept").exists()


def test_a_tree_that_is_deeper_than_any_path_is_searched_as_far_as_it_goes_and_deleted(virtual, root):
    (root / "top").mkdir()
    folder = os.open(root / "top", os.O_RDONLY)
    for _ in range(3 * DEPTH):
        os.mkdir("d" * 30, dir_fd=folder)
        inner = os.open("d" * 30, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    (root / "top" / "z").write_text("needle")
    found = virtual.glob("*")
    assert (paths(found.matches), found.truncation_reason) == (["/top/z"], "unreadable")
    assert paths(virtual.grep("needle").matches) == ["/top/z"]
    assert virtual.delete("/top") == DeleteResult(path="/top")
    assert names(root) == []


async def test_every_operation_has_an_async_form(virtual):
    assert (await virtual.awrite("/a", "needle")).error is None
    assert (await virtual.aedit("/a", "needle", "needles")).error is None
    assert paths((await virtual.als("/")).entries) == ["/a"]
    assert (await virtual.aread("/a")).content == "needles"
    assert len((await virtual.agrep("needle")).matches) == 1
    assert paths((await virtual.aglob("*")).matches) == ["/a"]
    assert (await virtual.aupload_files([("/b", b"x")]))[0].error is None
    assert (await virtual.adownload_files(["/b"]))[0].content == b"x"
    assert (await virtual.adelete("/b")).error is None
