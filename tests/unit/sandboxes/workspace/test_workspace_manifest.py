"""A manifest is a claim; what cannot be is refused."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from sandboxes.errors import PatchRefused
from sandboxes.workspace import manifest
from sandboxes.workspace.manifest import EMPTY_FOLDER, FileEntry, check_manifest
from tests.unit.sandboxes.workspace.trees import FILE, entry


def claim(path: str) -> FileEntry:
    return replace(entry(b"x", FILE, b"content"), path=path)


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../b", "a//b", "", ".", "a/./b", "a\0b", "a/", "\udfff"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(PatchRefused, match="cannot be"):
        check_manifest([claim(path)])


def test_a_path_that_is_there_twice_is_refused() -> None:
    with pytest.raises(PatchRefused, match="twice"):
        check_manifest([claim("a"), claim("a")])


@pytest.mark.parametrize("order", [("a", "a/b/c"), ("a/b/c", "a")])
def test_a_file_below_a_file_is_refused_in_any_order(order: tuple[str, str]) -> None:
    with pytest.raises(PatchRefused, match="no folder or an empty one, and 'a/b/c' below it"):
        check_manifest([claim(path) for path in order])


def test_a_folder_is_empty_or_refused() -> None:
    folder = FileEntry("a", "040000", 0, EMPTY_FOLDER)
    assert check_manifest([folder]) == {"a": folder}
    for wrong in (replace(folder, size=1), replace(folder, blob="0" * 40)):
        with pytest.raises(PatchRefused, match="mode '040000'"):
            check_manifest([wrong])
    with pytest.raises(PatchRefused, match="an empty one, and 'a/b' below it"):
        check_manifest([folder, claim("a/b")])


def test_a_mode_that_git_does_not_know_is_refused() -> None:
    with pytest.raises(PatchRefused, match="mode '160000'"):
        check_manifest([replace(claim("a"), mode="160000")])  # type: ignore[arg-type]


def test_too_many_entries_are_refused_before_they_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "ENTRIES_CAP", 10)
    endless = (claim(f"file{number}") for number in itertools.count())
    with pytest.raises(PatchRefused, match="more than 10 files"):
        check_manifest(endless)


def test_excluded_names_are_left_out_at_any_depth() -> None:
    checked = check_manifest([claim("a"), claim(".git/config"), claim("sub/.git/HEAD"), claim("x.git")], {".git"})
    assert list(checked) == ["a", "x.git"]
