"""Which paths may be in a workspace."""

from __future__ import annotations

import pytest

from sandboxes.workspace.names import BadName, is_dot_git, parents, shown, split, to_bytes, to_text


@pytest.mark.parametrize("path", ["a", "a/b", "with space", "new\nline", "..a", "a..", "...", "\udcff/\udcfe", "a\\b", "-rf"])
def test_ordinary_and_odd_names_are_taken(path: str) -> None:
    assert "/".join(split(path)) == path


@pytest.mark.parametrize(
    "path",
    ["", "/a", "..", "a/../b", "../a", "a/..", "a//b", "a/", ".", "./a", "a\0b", "x" * 256, "a/" * 300 + "a", "\ud800"],
)
def test_paths_that_lead_elsewhere_or_nowhere_are_refused(path: str) -> None:
    with pytest.raises(BadName):
        split(path)


@pytest.mark.parametrize("name", [".git", ".GIT", ".git.", ".git ", ".git . .", "git~1", "GIT~1", ".git::$INDEX", ".g\u200cit"])
def test_every_disguise_of_dot_git_is_known(name: str) -> None:
    assert is_dot_git(name)


@pytest.mark.parametrize("name", [".gitignore", "git", ".github", ".gitattributes", "agit~1", ".git-x"])
def test_names_that_only_look_like_dot_git_are_not(name: str) -> None:
    assert not is_dot_git(name)


def test_any_bytes_survive_the_way_to_text_and_back() -> None:
    raw = bytes(range(1, 256))
    assert to_bytes(to_text(raw)) == raw


def test_parents_come_from_the_nearest_up() -> None:
    assert list(parents("a/b/c")) == ["a/b", "a"]


def test_a_hostile_name_is_shown_on_one_line_and_short() -> None:
    text = shown("\x1b[2J\n" + "x" * 10_000)
    assert text.isprintable()
    assert len(text) < 250
