"""Words to the scripts and answers from them."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.errors import CallLost, ProtocolError
from sandboxes.toolbox.helper import text
from sandboxes.toolbox.shell_wire import ending, found, records, refusal, script, unword, word

names = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name)


@given(names)
def test_a_word_comes_out_as_the_bytes_that_it_stands_for(name):
    text_name = os.fsdecode(name)
    assert word(text_name).isascii()
    assert unword(word(text_name)) == text_name


@pytest.mark.parametrize("name", [b"/a b", b"/\xff\n\n", b"/-n", b"/%s\\0", "/ü'\"$(id)".encode(), bytes(range(1, 256))])
def test_the_shell_takes_a_word_apart_as_we_do(tmp_path, name):
    made = subprocess.run(
        ["/bin/sh", "-c", script("prelude") + "path \"$1\"; printf '%s' \"$p\"", "sh", str(tmp_path), word(os.fsdecode(name))],
        env={**os.environ, "S": str(tmp_path)},
        capture_output=True,
        timeout=20,
    )
    assert made.stdout == name


def test_names_with_newlines_do_not_end_a_record():
    listing = b"81a4 5 1700000000 /w/./a\n81a4 1 1 x///\n41ed 4096 1700000001 /w/./d///\n"
    assert [(path, status.size, status.is_folder) for path, status in records(listing)] == [
        ("/w/a\n81a4 1 1 x", 5, False),
        ("/w/d", 4096, True),
    ]


def test_a_listing_that_was_cut_has_no_ending():
    assert ending(b"81a4 5 1 /w/./a///\n1///\n") == (b"81a4 5 1 /w/./a///\n", 1)
    assert ending(b"0///\n") == (b"", 0)
    assert ending(b"81a4 5 1 /w/./a///\n81a4 5") == (b"81a4 5 1 /w/./a///\n81a4 5", None)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"E os stat: cannot statx '/x': No such file or directory", "file_not_found"),
        (b"E os stat: can't stat '/x': No such file or directory", "file_not_found"),
        (b"E os sh: 3: cannot create /x/y: Directory nonexistent", "file_not_found"),
        (b"E os mv: cannot move '/No such file or directory': Permission denied", "permission_denied"),
        (b"E os ln: failed to create hard link '/x': File exists", "already_exists"),
        (b"E os tee: No space left on device", "no_space"),
        (b"E os sh: something new", "io_error"),
        (b"E folder", "is_directory"),
        (b"E special", "invalid_path"),
        (b"R invalid_argument Error\\0072\\0040no", "invalid_argument"),
    ],
)
def test_errors_of_every_shell_mean_the_same(line, code):
    meant = refusal(line, "/x")
    assert isinstance(meant, text.Refused)
    assert meant.code == code


def test_what_is_no_answer_is_a_broken_protocol():
    assert isinstance(refusal(b"hello", "/x"), ProtocolError)
    with pytest.raises(ProtocolError):
        found(b"F zz 1 1 1", "/x")


def test_a_call_without_an_end_is_lost():
    assert isinstance(refusal(b"E lost", "/x"), CallLost)
