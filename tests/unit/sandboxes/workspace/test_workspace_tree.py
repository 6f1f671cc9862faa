"""The state that a run starts from."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from sandboxes.errors import ArchiveRefused
from sandboxes.workspace.archive import pack_folder
from sandboxes.workspace.names import to_text
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tarwriter import TarWriter
from sandboxes.workspace.tree import BaseTree
from tests.unit.sandboxes.workspace.trees import EXECUTABLE, FILE, LINK, Files, base_of, write_files


def test_every_file_and_link_is_there_with_its_content(tmp_path: Path) -> None:
    files: Files = {b"a/x": (FILE, b"text"), b"run": (EXECUTABLE, b"text"), b"l": (LINK, b"a/x"), b"\xff": (FILE, b"")}
    base = base_of(files, tmp_path)
    modes = {path: node.mode for path, node in base.entries.items()}
    assert modes == {to_text(path): mode for path, (mode, _) in files.items()}
    assert base.store.get(base.entries["a/x"].blob) == b"text"
    assert base.store.get(base.entries["l"].blob) == b"a/x"
    assert base.store.get(base.entries["\udcff"].blob) == b""


def test_git_folders_are_in_no_tree_and_others_as_asked(tmp_path: Path) -> None:
    paths = (b".git/HEAD", b"sub/.git/HEAD", b"a/drop/x", b"keep")
    folder = write_files(tmp_path / "in", dict.fromkeys(paths, (FILE, b"")))
    with (tmp_path / "a.tar").open("w+b") as file:
        out = TarWriter(file)
        pack_folder(folder, out)
        out.close()
    assert list(BaseTree.from_tar(tmp_path / "a.tar", tmp_path / "store", exclude=(".git", "drop")).entries) == ["keep"]


def test_an_empty_base_is_gits_empty_tree(tmp_path: Path) -> None:
    assert BaseTree.empty(tmp_path / "store").id == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_a_tar_with_anything_but_files_folders_and_links_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("null")
        info.type = tarfile.CHRTYPE
        tar.addfile(info)
    with pytest.raises(ArchiveRefused, match="neither a file nor a link"):
        BaseTree.from_tar(tmp_path / "a.tar", tmp_path / "store")


def test_a_tar_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    base_of({b"a": (FILE, b"x" * 5000)}, tmp_path)
    archive = tmp_path / "input.tar"
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(ArchiveRefused, match="cut off"):
        BaseTree.from_tar(archive, tmp_path / "store2")


def test_a_tar_that_was_changed_meanwhile_is_noticed(tmp_path: Path) -> None:
    base = base_of({b"a": (FILE, b"before")}, tmp_path)
    archive = tmp_path / "input.tar"
    archive.write_bytes(archive.read_bytes().replace(b"before", b"behind"))
    with pytest.raises(ArchiveRefused, match="was changed"):
        base.store.get(base.entries["a"].blob)


def test_the_store_gives_back_what_was_put_and_knows_nothing_else(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "store")
    assert store.get(store.put(b"\0content")) == b"\0content"
    with pytest.raises(KeyError):
        store.get("0" * 39 + "1")
