"""What children are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.childnames import check_child_name, child_names


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        (["calc", "3.11-unit"], ["calc", "3.11-unit"]),
        (["a b", "a-b", "c"], ["a-b-1", "a-b-2", "c"]),
        (["x", "x", "x-1"], ["x-2", "x-3", "x-1"]),
        (["", "ä", "c"], ["child-1", "child-2", "c"]),
        (["../../etc/passwd", "-rf", ".git"], ["etc-passwd", "rf", "git"]),
        (["y" * 99, "y" * 100], ["y" * 58 + "-1", "y" * 58 + "-2"]),
        (["z" * 59 + "!!"], ["z" * 59]),
    ],
)
def test_a_name_is_what_can_be_read_of_the_text_with_a_number_where_it_needs_one(about: list[str], expected: list[str]) -> None:
    assert child_names(about) == expected


@given(st.lists(st.text(alphabet="aA1-._ ä\n", max_size=70) | st.sampled_from(["child", "child-1", "a-1"]), max_size=30))
def test_names_are_all_different_and_fit_for_folders_whatever_they_are_after(about: list[str]) -> None:
    names = child_names(about)
    assert len(set(names)) == len(names) == len(about)
    for name in names:
        check_child_name(name)


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "-x", "a b", "x" * 61, "a\n"])
def test_what_no_child_can_be_called(name: str) -> None:
    with pytest.raises(ValueError, match="must be at most 60 letters"):
        check_child_name(name)
