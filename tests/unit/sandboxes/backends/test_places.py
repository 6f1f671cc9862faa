import pytest

from sandboxes.backends.layered.places import patterns_below, place, plain, renamed, resolved, within, workdir_of
from sandboxes.toolbox.helper.text import Refused
from tests.unit.sandboxes.backends.samples import Box, Memory, Rooted


@pytest.mark.parametrize(("path", "where"), [("/", ""), ("//", ""), ("/a/", "/a"), ("//a/./b", "/a/b")])
def test_a_place_has_no_closing_slash(path, where):
    assert place(path, "route") == where


@pytest.mark.parametrize("path", ["a", "", "/..", "/a\0", None])
def test_a_place_has_to_be_absolute(path):
    with pytest.raises(ValueError, match="route"):
        place(path, "route")


def test_everything_is_within_the_root():
    assert within("/", "")
    assert within("/a", "")
    assert not within("/ab", "/a")


@pytest.mark.parametrize(("told", "path"), [("/a/", "/a"), ("a", "/a"), ("//a/../b/", "/b"), ("/", "/")])
def test_paths_of_results_are_compared_in_one_form(told, path):
    assert plain(told) == path


def test_where_relative_paths_begin_is_what_a_backend_tells():
    assert [workdir_of(kind()) for kind in (Memory, Rooted, Box)] == ["/", "/workspace", None]
    assert resolved("a", "/workspace") == "/workspace/a"
    with pytest.raises(Refused, match="give an absolute path"):
        resolved("a", None)


@pytest.mark.parametrize(
    ("message", "inner", "outer"),
    [
        ("Error: File '/x' not found", "/x", "Error: File '/m/x' not found"),
        ("Writes are not allowed under /x", "/x", "Writes are not allowed under /m/x"),
        ("Cannot write to /x: it exists.", "/x", "Cannot write to /m/x: it exists."),
        ("Error: '/x.md' is not '/x'", "/x", "Error: '/x.md' is not '/m/x'"),
        ("see /a/x and /xy and /x/y", "/x", "see /a/x and /xy and /x/y"),
        ("Error: '/' is a directory / folder", "/", "Error: '/m' is a directory / folder"),
        (r"Error: '/a\1' not found", r"/a\1", r"Error: '/m/a\1' not found"),
    ],
)
def test_a_message_names_the_path_as_its_reader_knows_it(message, inner, outer):
    assert renamed(message, inner, ("/m" + inner).rstrip("/")) == outer


@pytest.mark.parametrize(
    ("pattern", "folders", "below"),
    [
        ("*.md", "m", ["*.md"]),
        ("/*.md", "m", []),
        ("m/*.md", "m", ["/*.md"]),
        ("**/*.md", "m/n", ["*.md"]),
        ("**", "m", ["**", "/**"]),
        ("**/n/*.md", "m/n", ["**/n/*.md", "/*.md"]),
        ("{m,k}/{a,b/c}", "m", ["/a", "b/c"]),
        ("*/x", ".m", []),
        ("m", "m", ["m"]),
        ("/m", "m", []),
        ("/", "m", []),
    ],
)
def test_patterns_are_carried_below_a_folder(pattern, folders, below):
    assert list(patterns_below(pattern, folders)) == sorted(below)
