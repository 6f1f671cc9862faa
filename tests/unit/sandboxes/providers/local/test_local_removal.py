"""A sandbox's folder is removed whatever was made in it, and nothing beside it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from sandboxes.providers.local.removal import remove_tree


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "sbx"
    (made / "upper" / "a" / "b").mkdir(parents=True)
    (made / "upper" / "a" / "file").write_text("x")
    (made / "handle.json").write_text("{}")
    return made


def dig(folder: Path, levels: int) -> None:
    """Folders in folders, deeper than a path may be long."""
    here = os.open(folder, os.O_PATH)
    for _ in range(levels):
        os.mkdir("d" * 20, dir_fd=here)
        deeper = os.open("d" * 20, os.O_PATH, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def test_files_folders_links_and_pipes_are_removed(top: Path) -> None:
    os.mkfifo(top / "upper" / "pipe")
    (top / "upper" / "dangling").symlink_to("/nonexistent")
    remove_tree(top)
    assert not top.exists()


def test_a_tree_that_is_too_deep_for_any_path_is_removed(top: Path) -> None:
    dig(top / "upper", 3000)
    remove_tree(top)
    assert not top.exists()


def test_folders_that_cannot_be_entered_are_removed(top: Path) -> None:
    for folder in ("upper/a/b", "upper/a", "upper"):
        (top / folder).chmod(0)
    remove_tree(top)
    assert not top.exists()


def test_what_links_lead_to_stays(top: Path, tmp_path: Path) -> None:
    (tmp_path / "decoy").mkdir(mode=0o750)
    (tmp_path / "decoy" / "file").write_text("mine")
    (top / "upper" / "a" / "link").symlink_to(tmp_path / "decoy")
    remove_tree(top)
    assert (tmp_path / "decoy" / "file").read_text() == "mine"
    assert (tmp_path / "decoy").stat().st_mode & 0o777 == 0o750


def test_several_may_remove_it_at_once_and_again(top: Path) -> None:
    for number in range(200):
        (top / "upper" / str(number) / "x" / "y").mkdir(parents=True)
    failures: list[OSError] = []

    def remove() -> None:
        try:
            remove_tree(top)
        except OSError as exc:
            failures.append(exc)

    threads = [threading.Thread(target=remove) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not top.exists()
    remove_tree(top)
