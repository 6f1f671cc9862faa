from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import pytest

from sandboxes.backends.keyed import filedata
from sandboxes.toolbox.helper.text import Refused

V2 = {"content": "a\nb\n", "encoding": "utf-8", "created_at": "2024-01-01T00:00:00+00:00"}
V1 = {"content": ["a", "b", ""], "created_at": "2024-01-01T00:00:00+00:00", "modified_at": "2024-01-02T00:00:00+00:00"}


def test_text_is_kept_as_text_with_its_type_and_times() -> None:
    kept = filedata.stored("/a.md", b"# caf\xc3\xa9\n")
    assert {**kept, "created_at": "", "modified_at": ""} == {
        "content": "# café\n",
        "encoding": "utf-8",
        "mime_type": "text/markdown",
        "created_at": "",
        "modified_at": "",
    }
    assert kept["created_at"] == kept["modified_at"]
    assert datetime.fromisoformat(kept["modified_at"]).utcoffset() is not None


@pytest.mark.parametrize(("path", "content"), [("/a.png", b"text"), ("/a.txt", b"caf\xe9"), ("/a.txt", b"x" * 9000 + b"\0")])
def test_what_is_no_text_is_kept_as_base64(path: str, content: bytes) -> None:
    kept = filedata.stored(path, content)
    assert kept["encoding"] == "base64"
    assert base64.b64decode(kept["content"]) == content


@pytest.mark.parametrize("content", [b"", b"a", b"a\nb", b"a\r\nb\n", b"\n\n", b"caf\xe9", b"\0\1"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_what_is_read_is_what_was_written_in_either_format(content: bytes, version: filedata.FileFormat) -> None:
    assert filedata.content_of("/a", filedata.stored("/a", content, version)) == content


def test_the_first_version_is_a_list_of_lines_and_times() -> None:
    kept: dict[str, Any] = {**filedata.stored("/a.txt", b"x\ny", "v1")}
    assert kept.pop("created_at") == kept.pop("modified_at")
    assert kept == {"content": ["x", "y"]}


def test_what_is_no_text_has_its_own_key_in_the_first_version() -> None:
    kept: dict[str, Any] = {**filedata.stored("/a.png", b"\x89PNG", "v1")}
    assert kept["_binary"] == base64.b64encode(b"\x89PNG").decode()
    assert kept["content"] == []


@pytest.mark.parametrize("kept", [V1, V2, {"content": b"a\nb\n"}, {"content": "a\nb\n", "mimeType": "text/plain"}])
def test_every_form_that_a_file_ever_had_is_read(kept: object) -> None:
    assert filedata.content_of("/a", kept) == b"a\nb\n"
    assert filedata.whole("/a.txt", kept)["content"] == "a\nb\n"
    assert filedata.info("/a", kept).get("size") == 4


@pytest.mark.parametrize(
    "kept",
    [
        None,
        7,
        "text",
        {},
        {"content": None},
        {"content": {"a": 1}},
        {"content": ["a", 1]},
        {"content": "a", "encoding": "rot13"},
        {"content": "a", "encoding": ["utf-8"]},
        {"content": "not base64!", "encoding": "base64"},
        {"content": "é", "encoding": "base64"},
        {"content": [], "_binary": "%%%"},
        {"content": "\ud800", "encoding": "utf-8"},
    ],
)
def test_what_is_no_file_is_refused_in_words_and_listed_without_a_size(kept: object) -> None:
    with pytest.raises(Refused, match="'/x' is not kept as a file"):
        filedata.content_of("/x", kept)
    assert filedata.info("/x", kept) == {"path": "/x", "is_dir": False}


def test_times_that_are_none_are_left_out() -> None:
    assert filedata.times_of({"created_at": 7, "modified_at": "2024"}) == {"modified_at": "2024"}
    assert filedata.times_of("nonsense") == {}


def test_the_size_of_a_file_is_in_bytes() -> None:
    assert filedata.info("/a", {"content": "é", "encoding": "utf-8"}).get("size") == 2
    assert filedata.info("/a", {"content": "AAAA", "encoding": "base64"}).get("size") == 3


def test_a_quick_look_never_misses_what_a_search_would_find() -> None:
    assert filedata.may_contain({"content": "needle"}, "need")
    assert not filedata.may_contain({"content": "hay", "encoding": "utf-8"}, "need")
    assert filedata.may_contain({"content": ["needle"]}, "need")
    assert filedata.may_contain({"content": "bmVlZGxl", "encoding": "base64"}, "need")
    assert filedata.may_contain("nonsense", "need")


def test_a_window_tells_lines_type_and_times() -> None:
    found = filedata.window("/a.py", {**V1, "content": ["1", "2", "3", ""]}, 1, 1)
    assert found.content == "2\n"
    assert (found.start_line, found.end_line, found.total_lines, found.next_offset) == (2, 2, 3, 2)
    assert found.mime_type == "text/x-python"
    assert found.file_data is not None
    assert found.file_data["modified_at"] == V1["modified_at"]


def test_a_window_may_begin_at_a_byte() -> None:
    assert filedata.window("/a", V2, 0, 10, byte_offset=2).content == "b\n"
