"""Folders into trees and back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from sandboxes.workspace.folders import read_folder, write_folder
from sandboxes.workspace.manifest import EMPTY_FOLDER
from sandboxes.workspace.store import BlobStore
from sandboxes.workspace.tree import Node, Tree
from tests.unit.sandboxes.workspace.test_patch_properties import trees
from tests.unit.sandboxes.workspace.trees import FILE, LINK, Files, read_files, write_files


@given(trees)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_read_and_written_is_the_same(files: Files) -> None:
    with tempfile.TemporaryDirectory(prefix="fanfold-folders-") as name:
        place = Path(name)
        tree = read_folder(write_files(place / "in", files), place / "in.tar", place / "store")
        write_folder(tree, tree.store.get, place / "out")
        assert read_files(place / "out") == files


def test_an_empty_folder_is_written_as_one(tmp_path: Path) -> None:
    write_folder(Tree({"d/e": Node("040000", EMPTY_FOLDER, 0)}), {}.__getitem__, tmp_path / "out")
    assert (tmp_path / "out/d/e").is_dir()
    assert not [*(tmp_path / "out/d/e").iterdir()]


def test_a_submodule_is_an_empty_folder(tmp_path: Path) -> None:
    write_folder(Tree({"a/s": Node("160000", "1" * 40, 0)}), {}.__getitem__, tmp_path / "out")
    assert list((tmp_path / "out" / "a" / "s").iterdir()) == []


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "store")
    (tmp_path / "elsewhere").mkdir()
    target = str(tmp_path / "elsewhere").encode()
    tree = Tree({"a": Node(LINK, store.put(target), len(target)), "a/x": Node(FILE, store.put(b"x"), 1)})
    with pytest.raises(OSError, match="exists"):
        write_folder(tree, store.get, tmp_path / "out")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    tree = Tree({"a": Node(FILE, "1" * 40, 1)})
    with pytest.raises(KeyError):
        write_folder(tree, {}.__getitem__, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(OSError, match="not empty"):
        write_folder(Tree(), {}.__getitem__, tmp_path / "full")
    assert {path.name for path in tmp_path.rglob("*")} == {"full", "x"}
