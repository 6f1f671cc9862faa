"""A manifest is the same with what was hashed before as without, and what did not change is not read again."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxes.toolbox.helper import hashed, search
from sandboxes.toolbox.helper.hashed import Hashed, Walk

LATER = 10.0
"""Seconds: longer than what changed just now is not remembered."""


def later() -> float:
    return time.time() + LATER


class Tree:
    """A folder, and what its manifests have read."""

    def __init__(self, folder: Path, clock=later) -> None:
        self.root, state = folder / "root", folder / "state"
        self.root.mkdir()
        state.mkdir()
        self._hashed = Hashed(str(state), clock)

    def manifest(self) -> bytes:
        walk = self._hashed.walk()
        found: bytes = search.manifest(str(self.root), [], lambda: False, walk)
        self._hashed.save(walk)
        return found

    def plainly(self) -> bytes:
        """The same without anything that was known."""
        found: bytes = search.manifest(str(self.root), [], lambda: False, Walk({}, 0.0))
        return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read."""
    names: list[str] = []
    hash_file = search.hash_file

    def noting(path, budget):
        names.append(Path(path).name)
        return hash_file(path, budget)

    monkeypatch.setattr(search, "hash_file", noting)
    return names


def test_what_did_not_change_is_not_read_again(tmp_path: Path, read: list[str]) -> None:
    tree = Tree(tmp_path)
    for name in ("a", "b"):
        (tree.root / name).write_text(name)
    first = tree.manifest()
    assert sorted(read) == ["a", "b"]
    read.clear()
    assert tree.manifest() == first
    assert read == []
    (tree.root / "b").write_text("longer")
    (tree.root / "c").write_text("new")
    assert tree.manifest() == tree.plainly() != first
    assert [read.count(name) for name in "abc"] == [1, 2, 2], "once of these was without what was known"


def test_what_changed_just_now_is_read_again(tmp_path: Path, read: list[str]) -> None:
    tree = Tree(tmp_path, clock=time.time)
    (tree.root / "a").write_text("a")
    tree.manifest()
    tree.manifest()
    assert read == ["a", "a"]


def test_a_file_whose_times_were_set_back_is_read_again(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    path = tree.root / "a"
    path.write_text("old")
    before = path.stat()
    tree.manifest()
    replacement = tree.root / "b"
    replacement.write_text("new")
    replacement.replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tree.manifest() == tree.plainly()


def test_times_that_no_clock_shows_are_no_error(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    path = tree.root / "a"
    path.write_text("a")
    for seconds in (-(2**31), 2**33):
        os.utime(path, (seconds, seconds))
        assert tree.manifest() == tree.manifest() == tree.plainly()


def test_a_memory_that_was_damaged_or_is_too_large_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path)
    (tree.root / "a").write_text("a")
    memory = tmp_path / "state" / "hashed"
    for content in (b"x", random.Random(1).randbytes(1_000_003)):
        memory.write_bytes(content)
        assert tree.manifest() == tree.plainly()
    monkeypatch.setattr(hashed, "FILE_CAP", 10)
    (tree.root / "b").write_text("b")
    assert tree.manifest() == tree.manifest() == tree.plainly()


NAMES = st.sampled_from(["a", "b", "c/d", "c/e"])
CHANGES = st.lists(st.tuples(st.sampled_from(["write", "remove", "move", "chmod", "truncate"]), NAMES, NAMES), max_size=12)


@given(rounds=st.lists(CHANGES, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_to_the_files_the_manifest_is_right(tmp_path_factory: pytest.TempPathFactory, rounds: list) -> None:
    tree = Tree(tmp_path_factory.mktemp("tree"))
    (tree.root / "c").mkdir()
    sizes = iter(range(1, 1000))
    for changes in rounds:
        for what, name, other in changes:
            path = tree.root / name
            if what == "write":
                path.write_text("x" * next(sizes))
            elif path.exists():
                {
                    "remove": path.unlink,
                    "move": lambda path=path, other=other: path.replace(tree.root / other),
                    "chmod": lambda path=path: path.chmod(path.stat().st_mode ^ 0o100),
                    "truncate": lambda path=path: os.truncate(path, 0),
                }[what]()
        assert tree.manifest() == tree.plainly()
