"""Files on disk, with containment and without."""

from __future__ import annotations

import asyncio
import os
import resource
import socket

import pytest

from sandboxes.backends import FilesystemBackend
from sandboxes.protocol import (
    BackendProtocol,
    DeleteResult,
    FileDownloadResponse,
    FileUploadResponse,
    WriteResult,
)

MEGABYTE = 1024 * 1024


def paths(found):
    assert found is not None
    return [one["path"] for one in found]


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
