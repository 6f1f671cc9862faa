import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.toolbox.helper import text


def window(data, offset=0, limit=2000, **options):
    return text.read_window(io.BytesIO(data), len(data), offset, limit, **options)


def test_a_window_tells_where_it_is_and_how_to_go_on():
    assert window(b"a\nb\nc\n", 1, 1) == {
        "content": "b\n",
        "encoding": "utf-8",
        "start_line": 2,
        "end_line": 2,
        "next_offset": 2,
        "total_lines": 3,
    }


def test_an_empty_file_has_no_window():
    assert window(b"") == {"content": "", "encoding": "utf-8"}


def test_zero_lines_are_not_looked_for():
    assert window(b"\0binary", 0, 0)["no_lines_requested"]


@pytest.mark.parametrize(("data", "offset"), [(b"a\nb\nc", 3), (b"a\n", 1), (b"", 1)])
def test_an_offset_past_the_end_says_how_long_the_file_is(data, offset):
    with pytest.raises(text.Refused, match="past the end"):
        window(data, offset)


def test_a_long_line_is_cut_and_its_tail_is_reachable():
    line = ("é" * 500_000 + "THE END\n").encode()
    first = window(line + b"next\n", cap=1000)
    assert first["next_byte"] == 1000
    assert first["total_lines"] == 2
    rest = window(line + b"next\n", byte_offset=len(line) - 8, cap=1000)
    assert rest["content"] == "THE END\nnext\n"


def test_a_cut_never_splits_a_character():
    assert window("é".encode() * 50, cap=11)["content"] == "é" * 5


def test_bytes_that_are_not_text_come_as_base64():
    assert window(b"\x00\x01")["encoding"] == "base64"
    assert window(b"caf\xe9")["encoding"] == "base64"


def test_a_huge_binary_is_refused_with_its_size():
    with pytest.raises(text.Refused, match="is binary and has"):
        text.read_window(io.BytesIO(b"\0"), text.BINARY_CAP + 1, 0, 10, path="/x")


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"), max_size=20)


@given(st.lists(LINE, max_size=30), st.data())
def test_reading_page_by_page_gives_the_whole(lines, data):
    whole = "\n".join(lines)
    cap = data.draw(st.integers(8, 200))
    limit = data.draw(st.integers(1, 10))
    raw, got, offset = whole.encode(), "", 0
    while raw:
        page = window(raw, offset, limit, cap=cap)
        got += page["content"]
        while "next_byte" in page:
            page = window(raw, byte_offset=page["next_byte"], limit=1, cap=cap)
            got += page["content"]
            if page["content"].endswith("\n"):
                page.pop("next_byte", None)
        offset = got.count("\n")
        if len(got.encode()) == len(raw):
            break
    assert got == whole


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", ".a.py", ".git/a.py"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("src/*.py", ["src/a.py"], ["a.py", "x/src/a.py", "src/b/a.py"]),
        ("**/*.py", ["a.py", "x/y/a.py"], [".venv/a.py"]),
        ("src/**", ["src/a", "src/b/c"], ["src", "a", "src/.a"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/x/y/test_b.py"], ["src/a.py"]),
        ("*.{ts,tsx}", ["a.ts", "b/a.tsx"], ["a.tsxx"]),
        ("[ab]?.txt", ["ax.txt"], ["cx.txt", "a.txt"]),
        ("[!ab].txt", ["c.txt"], ["a.txt", "/.txt"]),
        (".env", [".env", "x/.env"], ["env"]),
        ("a[b", ["a[b"], ["ab"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
        ("[]].txt", ["].txt"], ["a.txt"]),
        ("line\nbreak*", ["line\nbreak!"], ["line"]),
    ],
)
def test_glob_rules(pattern, matching, other):
    matches = text.glob_matcher(pattern)
    assert [path for path in matching if not matches(path)] == []
    assert [path for path in other if matches(path)] == []


@pytest.mark.parametrize("pattern", ["", "../x", "a/../b", "{a,b}" * 9, "a\0"])
def test_globs_that_are_refused(pattern):
    with pytest.raises(text.Refused):
        text.glob_matcher(pattern)


@given(st.text(max_size=30))
def test_any_glob_is_taken_or_refused(pattern):
    with contextlib.suppress(text.Refused):
        text.glob_matcher(pattern)("some/path.txt")


def test_grep_is_literal_and_counts_lines():
    assert text.grep_lines(b"a.c\nabc\nx a.c a.c\r\n", b"a.c", 10) == [(1, "a.c"), (3, "x a.c a.c")]
    assert text.grep_lines(b"a\na\na\n", b"a", 2) == [(1, "a"), (2, "a")]
    assert text.grep_lines(b"a\0", b"a", 2) == []


def test_a_replacement_must_be_unique_unless_all_are_meant():
    assert text.replace("aXb", "X", "Y", False, "/f") == ("aYb", 1)
    assert text.replace("XX", "X", "", True, "/f") == ("", 2)
    for content, old in [("XX", "X"), ("a", "X"), ("a", "")]:
        with pytest.raises(text.Refused):
            text.replace(content, old, "Y", False, "/f")


@pytest.mark.parametrize("path", ["", "..", "/a/../b", "a/..", "a\0b", "a\ud800b"])
def test_paths_that_are_refused(path):
    with pytest.raises(text.Refused) as refused:
        text.absolute(path, "/w")
    assert refused.value.code == "invalid_path"


def test_paths_are_normalized():
    assert text.absolute("a//./b/", "/w") == "/w/a/b"
    assert text.absolute("/", "/w") == "/"
    assert text.absolute("/x..y/...", "/w") == "/x..y/..."
