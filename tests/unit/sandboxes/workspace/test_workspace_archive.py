"""A local folder becomes a tar: the same bytes for the same content, and nothing from outside of the folder."""

from __future__ import annotations

import os
import socket
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace import tarwriter
from sandboxes.workspace.archive import pack_folder
from sandboxes.workspace.tarwriter import TarWriter
from tests.unit.sandboxes.workspace.trees import EXECUTABLE, FILE, LINK, Files, git, read_files, write_files

ODD: Files = {
    b"plain.txt": (FILE, b"content\n"),
    b"run.sh": (EXECUTABLE, b"#!/bin/sh\n"),
    b"empty": (FILE, b""),
    b"with space/tab\there/new\nline": (FILE, b"x" * 513),
    b"\xff\xfe/caf\xe9": (FILE, b"latin"),
    "ünï/ćödé".encode(): (FILE, b"utf-8"),
    b"deep/" * 40 + b"n" * 200: (FILE, b"a long path"),
    b"link": (LINK, b"plain.txt"),
    b"dangling": (LINK, b"/nowhere/" + b"x" * 300),
}


def pack(folder: Path, target: Path, exclude: tuple[str, ...] = ()) -> Path:
    with target.open("w+b") as file:
        out = TarWriter(file)
        pack_folder(folder, out, exclude=exclude)
        out.close()
    return target


def unpack(archive: Path, folder: Path) -> Path:
    """With the machine's own tar: what others read is what counts."""
    folder.mkdir()
    assert os.spawnlp(os.P_WAIT, "tar", "tar", "-xf", str(archive), "-C", str(folder)) == 0
    return folder


def test_what_tar_unpacks_is_what_was_there(tmp_path: Path) -> None:
    archive = pack(write_files(tmp_path / "in", ODD), tmp_path / "a.tar")
    assert read_files(unpack(archive, tmp_path / "out")) == ODD


def test_empty_folders_are_kept(tmp_path: Path) -> None:
    (tmp_path / "in" / "a" / "b").mkdir(parents=True)
    assert (unpack(pack(tmp_path / "in", tmp_path / "a.tar"), tmp_path / "out") / "a" / "b").is_dir()


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_files(tmp_path / "first", ODD)
    second = write_files(tmp_path / "second", dict(reversed(ODD.items())))
    os.utime(second / "plain.txt", (0, 0))
    (second / "plain.txt").chmod(0o600)
    assert pack(first, tmp_path / "1.tar").read_bytes() == pack(second, tmp_path / "2.tar").read_bytes()


def test_links_are_kept_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = write_files(tmp_path / "in", {b"out": (LINK, b"../secret"), b"loop": (LINK, b".")})
    with tarfile.open(pack(folder, tmp_path / "a.tar")) as tar:
        assert {info.name: info.linkname for info in tar} == {"loop": ".", "out": "../secret"}


def test_sockets_and_pipes_are_left_out_without_waiting(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {b"file": (FILE, b"x")})
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        with tarfile.open(pack(folder, tmp_path / "a.tar")) as tar:
            assert tar.getnames() == ["file"]


def test_excluded_names_are_left_out_at_any_depth(tmp_path: Path) -> None:
    files: Files = {b"a/node_modules/x": (FILE, b""), b"node_modules/y": (FILE, b""), b"a/node_modules2": (FILE, b"")}
    archive = pack(write_files(tmp_path / "in", files), tmp_path / "a.tar", ("node_modules",))
    assert list(read_files(unpack(archive, tmp_path / "out"))) == [b"a/node_modules2"]


def test_more_than_a_workspace_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_files(tmp_path / "in", {b"a": (FILE, b"12345"), b"b": (FILE, b"12345")})
    monkeypatch.setattr(tarwriter, "ENTRIES_CAP", 1)
    with pytest.raises(ArchiveRefused, match="more than 1 files"):
        pack(folder, tmp_path / "a.tar")
    monkeypatch.undo()
    monkeypatch.setattr(tarwriter, "BYTES_CAP", 9)
    with pytest.raises(ArchiveRefused, match=r"at 'b'.*exclude"):
        pack(folder, tmp_path / "a.tar")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    content = BytesIO(b"12")
    with (tmp_path / "a.tar").open("w+b") as file, pytest.raises(ArchiveRefused, match="'a' ended 3 bytes early"):
        TarWriter(file).file("a", 5, content.read)


def test_a_git_repository_survives_packing(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {b"a": (FILE, b"x")})
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    unpacked = unpack(pack(folder, tmp_path / "a.tar"), tmp_path / "out")
    assert git(unpacked, "log", "--format=%s") == b"first\n"
    assert git(unpacked, "status", "--porcelain") == b""
