"""Text with line numbers, and without."""


import pytest

from sandboxes.backends.first import numbered


@pytest.mark.parametrize(
    ("answer", "offset", "lines"),
    [
        ("     1\ta\n     2\t", 0, ["a", ""]),
        ("   100\ta\n   101\tb", 99, ["a", "b"]),
        ("1→a\n2→b", 0, ["a", "b"]),
        ("     1\taaa\n   1.1\tbbb\n   1.2\tc\n     2\td", 0, ["aaabbbc", "d"]),
        ("plain\ntext\n", 0, ["plain", "text"]),
        ("     7\tnot ours\n     9\tnumbers", 0, ["     7\tnot ours", "     9\tnumbers"]),
        ("     1\t     1\tnumbers in the file", 0, ["     1\tnumbers in the file"]),
    ],
)
def test_numbers_come_off_where_they_run_on(answer, offset, lines):
    assert numbered.lines_of(answer, offset) == lines


def test_numbering_and_its_removal_are_inverse():
    lines = ["", "x" * 25_000, "Error: not one", "last"]
    assert numbered.lines_of(numbered.number(lines, 5), 4) == lines
    assert numbered.failure(numbered.number(["Error: x"]), 0) is None
