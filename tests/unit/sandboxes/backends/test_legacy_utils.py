import pytest

from sandboxes.backends.first.utils import (
    format_content_with_line_numbers,
    format_read_response,
    glob_search_files,
    grep_matches_from_files,
    normalize_path,
    perform_string_replacement,
    validate_path,
)

FILES = {
    "/a.md": {"content": ["todo", "done"], "created_at": "t", "modified_at": "t"},
    "/src/b.py": {"content": "todo\n", "encoding": "utf-8"},
    "/src/.hidden": {"content": "todo", "encoding": "utf-8"},
}


@pytest.mark.parametrize(("path", "normal"), [("a//b/", "/a/b"), ("/", "/"), ("./x", "/x")])
def test_paths_are_normalized(path, normal):
    assert normalize_path(path) == validate_path(path) == normal


@pytest.mark.parametrize("path", ["/a/../b", "~/x", "C:\\x", "", "/a\0"])
def test_a_path_that_leads_out_is_a_value_error(path):
    with pytest.raises(ValueError, match=r"Path|path"):
        validate_path(path)


def test_allowed_prefixes_end_where_names_end():
    assert validate_path("/memories/x", allowed_prefixes=["/memories/"]) == "/memories/x"
    with pytest.raises(ValueError, match="outside of"):
        validate_path("/memoriesX", allowed_prefixes=["/memories"])


def test_lines_are_numbered_as_cat_does():
    assert format_content_with_line_numbers("a\nb", 9) == "     9\ta\n    10\tb"
    assert format_content_with_line_numbers(["a"]) == "     1\ta"


@pytest.mark.parametrize("name", ["/a.md", "/src/b.py"])
def test_both_formats_are_read(name):
    assert format_read_response(FILES[name], limit=1) == "     1\ttodo"


def test_a_read_tells_what_it_cannot_show():
    assert format_read_response(FILES["/a.md"], 1) == "     2\tdone"
    assert format_read_response({"content": "", "encoding": "utf-8"}).startswith("System reminder")
    assert "past the end" in format_read_response(FILES["/a.md"], 7)
    assert format_read_response({"content": "AAE=", "encoding": "base64"}) == "Error: the file is not text"
    assert format_read_response({"content": 3}).startswith("Error: ")
    assert format_read_response(FILES["/a.md"], 0, 0) == ""


def test_a_replacement_is_the_text_and_a_count_or_words():
    assert perform_string_replacement("a b a", "a", "c", True) == ("c b c", 2)
    assert perform_string_replacement("a b a", "a", "c").startswith("Error: old_string occurs 2 times")
    assert perform_string_replacement("a", "x", "c") == "Error: old_string was not found in 'the file'"


def test_globs_choose_files():
    assert list(glob_search_files(FILES, "*.py")) == ["/src/b.py"]
    assert list(glob_search_files(FILES, "**/*", "/src")) == ["/src/b.py"]
    assert glob_search_files(FILES, "*", "/none") == {}
    with pytest.raises(ValueError, match="glob pattern"):
        glob_search_files(FILES, "../*")


def test_matches_are_found_in_either_format():
    found = grep_matches_from_files(FILES, "todo")
    assert [(one["path"], one["line"], one["text"]) for one in found] == [
        ("/a.md", 1, "todo"),
        ("/src/.hidden", 1, "todo"),
        ("/src/b.py", 1, "todo"),
    ]
    assert len(grep_matches_from_files(FILES, "todo", "/src", "*.py")) == 1
    assert grep_matches_from_files(FILES, "") == "Error: the pattern must not be empty"
