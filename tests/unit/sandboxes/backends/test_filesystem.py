"""Files on disk, with containment and without."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandboxes.backends import FilesystemBackend
from sandboxes.backends.disk.descriptors import DEPTH, put
from sandboxes.protocol import (
    BackendProtocol,
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    WriteResult,
)

MEGABYTE = 1024 * 1024


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    made.mkdir()
    return made


@pytest.fixture
def virtual(root):
    return FilesystemBackend(root, virtual_mode=True)


@pytest.fixture(params=["virtual", "host"])
def backend(request, root):
    return FilesystemBackend(root_dir=root, virtual_mode=request.param == "virtual")


@pytest.fixture
def at(backend, root):
    """The path of a file of the root as the backend names it."""
    return lambda name: f"/{name}" if backend.virtual_mode else f"{root}/{name}"


def paths(found):
    assert found is not None
    return [one["path"] for one in found]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# -- the two modes


def test_it_is_a_backend_with_the_seeds_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    backend = FilesystemBackend()
    assert isinstance(backend, BackendProtocol)
    assert (backend.root_dir, backend.virtual_mode, backend.max_file_size) == (tmp_path, False, 10 * MEGABYTE)


def test_in_virtual_mode_a_path_is_below_the_root_and_so_are_those_of_results(virtual, root):
    assert virtual.write("/src/main.py", "print()\n") == WriteResult(path="/src/main.py")
    assert (root / "src" / "main.py").read_text() == "print()\n"
    assert virtual.write("src/other.py", "x") == WriteResult(path="/src/other.py")
    assert paths(virtual.ls("/").entries) == ["/src/"]
    assert paths(virtual.glob("*.py").matches) == ["/src/main.py", "/src/other.py"]
    assert virtual.grep("print").matches == [{"path": "/src/main.py", "line": 1, "text": "print()"}]


def test_without_it_absolute_paths_are_the_machines_own_and_relative_ones_begin_in_the_root(root, tmp_path):
    host = FilesystemBackend(root_dir=root)
    assert host.write("relative", "a") == WriteResult(path=f"{root}/relative")
    assert host.write(f"{tmp_path}/elsewhere", "b") == WriteResult(path=f"{tmp_path}/elsewhere")
    assert (root / "relative").read_text() == "a"
    assert (tmp_path / "elsewhere").read_text() == "b"
    assert paths(host.glob("*").matches) == [f"{root}/relative"]


def test_what_is_changed_on_disk_needs_no_state_update(backend, at):
    assert backend.write(at("a"), "x").files_update is None
    assert backend.edit(at("a"), "x", "y").files_update is None


BAD = {"up": "../outside", "inner-up": "/a/../../outside", "hidden-up": "a/..", "nul": "/a\0b", "empty": "", "lone": "/\ud800"}


@pytest.mark.parametrize("path", BAD.values(), ids=BAD)
def test_a_path_that_makes_no_sense_is_an_error_of_every_operation_and_never_raises(backend, path):
    errors = [
        backend.ls(path).error, backend.read(path).error, backend.read_raw(path).error, backend.grep("x", path).error,
        backend.glob("*", path).error, backend.write(path, "x").error, backend.edit(path, "a", "b").error,
        backend.delete(path).error,
    ]  # fmt: skip
    assert all(error and error.startswith("Error: Path ") for error in errors), errors
    assert backend.upload_files([(path, b"")]) == [FileUploadResponse(path, error="invalid_path")]
    assert backend.download_files([path]) == [FileDownloadResponse(path, error="invalid_path")]


def test_in_virtual_mode_there_is_no_home(virtual, root):
    result = virtual.write("~/.ssh/authorized_keys", "x")
    assert result.error == "Error: Path '~/.ssh/authorized_keys' must not begin with '~': there is no home here"
    assert virtual.write("/~/file", "x").error is None
    assert (root / "~" / "file").exists()


def test_in_virtual_mode_a_link_that_leads_out_is_an_error_that_says_so(virtual, root, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (root / "out").symlink_to(tmp_path / "secret")
    refusal = "Error: '/out' leads out of the root directory through a symbolic link"
    assert virtual.read("/out").error == refusal
    assert virtual.edit("/out", "secret", "x").error == refusal
    assert virtual.grep("secret", "/out").error == refusal
    assert virtual.upload_files([("/out", b"x")])[0].error == "permission_denied"
    assert virtual.download_files(["/out"])[0].error == "permission_denied"
    assert virtual.write("/out", "x").error is not None
    assert (tmp_path / "secret").read_text() == "secret"


def test_in_virtual_mode_searches_and_listings_show_nothing_of_what_links_lead_to_outside(virtual, root, tmp_path):
    (tmp_path / "secret").write_text("secret" * 1000)
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    assert virtual.grep("secret").matches == []
    assert virtual.glob("**").matches == []
    entries = virtual.ls("/").entries
    assert [(entry["path"], entry["is_dir"]) for entry in entries] == [("/folder", False), ("/out", False)]
    assert all(entry["size"] < 1000 for entry in entries)


def test_a_link_that_leads_out_can_be_deleted_and_nothing_but_the_link_is(virtual, root, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (root / "link").symlink_to(tmp_path / "kept")
    (root / "tree").mkdir()
    (root / "tree" / "link").symlink_to(tmp_path / "kept")
    assert virtual.delete("/link") == DeleteResult(path="/link")
    assert virtual.delete("/tree") == DeleteResult(path="/tree")
    assert list(root.iterdir()) == []
    assert (tmp_path / "kept" / "file").exists()


def test_without_virtual_mode_links_are_followed(root, tmp_path):
    (tmp_path / "real").write_text("old")
    (root / "link").symlink_to(tmp_path / "real")
    host = FilesystemBackend(root)
    assert host.read("link").content == "old"
    assert host.edit("link", "old", "new").error is None
    assert (root / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_root_that_is_not_there_yet_is_made(tmp_path):
    backend = FilesystemBackend(tmp_path / "memories" / "agent", virtual_mode=True)
    assert backend.ls("/").entries == []
    assert backend.write("/notes.md", "x").error is None
    assert (tmp_path / "memories" / "agent" / "notes.md").read_text() == "x"


def test_a_subclass_can_guard_prefixes_as_in_the_documentation(root):
    class Guarded(FilesystemBackend):
        def __init__(self, *, deny_prefixes, **kwargs):
            super().__init__(**kwargs)
            self.deny_prefixes = [prefix if prefix.endswith("/") else prefix + "/" for prefix in deny_prefixes]

        def write(self, file_path, content):
            if any(file_path.startswith(prefix) for prefix in self.deny_prefixes):
                return WriteResult(error=f"Writes are not allowed under {file_path}")
            return super().write(file_path, content)

    guarded = Guarded(deny_prefixes=["/locked"], root_dir=root, virtual_mode=True)
    assert guarded.write("/locked/a", "x").error == "Writes are not allowed under /locked/a"
    assert asyncio.run(guarded.awrite("/locked/a", "x")).error == "Writes are not allowed under /locked/a"
    assert guarded.write("/open/a", "x").error is None


# -- listing and reading


def test_ls_tells_size_time_and_kind_and_ends_a_folder_with_a_slash(backend, at, root):
    (root / "folder").mkdir()
    (root / "file").write_text("12345")
    os.utime(root / "file", (1577934245, 1577934245))
    folder, file = sorted(backend.ls(at("")).entries, key=lambda entry: not entry["is_dir"])
    assert (folder["path"], folder["is_dir"], "size" in folder) == (at("folder/"), True, False)
    assert file == {"path": at("file"), "is_dir": False, "size": 5, "modified_at": "2020-01-02T03:04:05.000000+00:00"}


def test_ls_of_what_is_no_folder_is_an_error(backend, at, root):
    (root / "file").touch()
    assert backend.ls(at("missing")).error == f"Error: Directory '{at('missing')}' not found"
    assert backend.ls(at("file")).error == f"Error: '{at('file')}' is not a directory"
    assert backend.ls(at("file/below")).error == f"Error: '{at('file/below')}' is not a directory"


def test_read_gives_a_window_with_its_place_in_the_file(backend, at, root):
    (root / "ten.py").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    result = backend.read(at("ten.py"), offset=2, limit=3)
    assert result.content == "line 3\nline 4\nline 5\n"
    assert (result.start_line, result.end_line, result.total_lines, result.next_offset) == (3, 5, 10, 5)
    assert result.file_data["mime_type"] == "text/x-python"
    assert result.file_data["modified_at"].endswith("+00:00")


def test_read_can_begin_at_any_byte(backend, at, root):
    (root / "text").write_text("one two")
    assert backend.read(at("text"), byte_offset=4).content == "two"
    assert asyncio.run(backend.aread(at("text"), byte_offset=4)).content == "two"


def test_what_is_no_text_comes_as_base64_with_its_type(backend, at, root):
    (root / "image.png").write_bytes(b"\x89PNG")
    result = backend.read(at("image.png"))
    assert (result.content, result.mime_type, result.file_data["encoding"]) == (b"\x89PNG", "image/png", "base64")


def test_read_raw_gives_all_of_a_file_and_its_time(backend, at, root):
    (root / "big.txt").write_text("x\n" * 5000)
    for result in (backend.read_raw(at("big.txt")), asyncio.run(backend.aread_raw(at("big.txt")))):
        assert result.data["content"] == "x\n" * 5000
        assert result.data["modified_at"].endswith("+00:00")
    assert backend.read_raw(at("missing")).error == f"Error: File '{at('missing')}' not found"


def test_a_file_over_the_limit_is_not_read_searched_or_edited_and_the_error_names_both_sizes(root):
    backend = FilesystemBackend(root, virtual_mode=True, max_file_size_mb=0.5)
    (root / "large").write_text("needle\n" * 100_000)
    (root / "small").write_text("needle\n")
    refusal = "Error: File '/large' has 700000 bytes, more than the 524288 that max_file_size_mb allows"
    assert backend.read("/large").error == refusal
    assert backend.edit("/large", "needle", "x").error == refusal
    assert backend.grep("needle", "/large").error == refusal
    assert paths(backend.grep("needle").matches) == ["/small"]
    assert len(backend.download_files(["/large"])[0].content) == 700_000


def test_a_limit_must_be_positive(root):
    with pytest.raises(ValueError, match="max_file_size_mb"):
        FilesystemBackend(root, max_file_size_mb=0)


def test_a_window_of_a_large_file_is_read_without_the_rest(root):
    with (root / "large").open("wb") as file:
        for _ in range(300):
            file.write((b"x" * 99 + b"\n") * 10_000)
    backend = FilesystemBackend(root, virtual_mode=True, max_file_size_mb=1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = backend.read("/large", offset=2_000_000, limit=2)
    assert (result.start_line, result.next_offset, len(result.content)) == (2_000_001, 2_000_002, 200)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024, "KiB"


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_file_is_neither_read_nor_waited_for(backend, at, root, kind):
    path, server = root / "odd", socket.socket(socket.AF_UNIX)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        server.bind(os.path.relpath(path))
    elif os.geteuid() == 0:
        os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero
    else:
        pytest.skip("only root makes devices")
    server.close()
    assert backend.read(at("odd")).error
    assert backend.edit(at("odd"), "a", "b").error
    assert backend.download_files([at("odd")])[0].error
    assert backend.grep("x", at("odd")).matches == []
    assert backend.grep("x").matches == []
    assert backend.glob("odd").matches == []
    assert backend.write(at("odd"), "x").error
    assert backend.delete(at("odd")).error is None
    assert not path.exists()


def test_a_folder_is_not_read(backend, at, root):
    (root / "folder").mkdir()
    assert backend.read(at("folder")).error == f"Error: '{at('folder')}' is a directory"
    assert backend.download_files([at("folder")])[0].error == "is_directory"


# -- writing


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


# -- deleting


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
