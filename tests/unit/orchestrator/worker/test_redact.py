"""Secrets do not get through, wherever the pieces are cut."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.worker.redact import Redactor

SECRET = "hunter2-secret"


def streamed(redactor: Redactor, pieces: list[bytes]) -> bytes:
    stream = redactor.stream()
    return b"".join([*(stream.feed(piece) for piece in pieces), stream.close()])


@given(st.binary(max_size=40), st.binary(max_size=40), st.lists(st.integers(0, 100), max_size=10))
def test_a_secret_is_hidden_however_the_stream_is_cut(before: bytes, after: bytes, cuts: list[int]) -> None:
    whole = before + SECRET.encode() + after
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [whole[a:b] for a, b in itertools.pairwise(places)]
    assert streamed(Redactor([SECRET]), pieces) == whole.replace(SECRET.encode(), b"***")


@given(st.lists(st.text("ab", min_size=1, max_size=4), max_size=4), st.lists(st.text("abc", max_size=5), max_size=8))
def test_a_stream_and_a_whole_text_give_the_same(secrets: list[str], pieces: list[str]) -> None:
    redactor = Redactor(secrets)
    assert streamed(redactor, [piece.encode() for piece in pieces]).decode() == redactor.text("".join(pieces))


def test_what_cannot_begin_a_secret_is_not_held_back() -> None:
    stream = Redactor([SECRET]).stream()
    assert stream.feed(b"plain text") == b"plain text"
    assert stream.feed(b"then hunt") == b"then "
    assert stream.feed(b"ing") == b"hunting"


def test_the_longest_secret_wins() -> None:
    assert Redactor(["abc", "abcdef"]).text("x abcdef abc") == "x *** ***"
    assert streamed(Redactor(["abc", "abcdef"]), [b"abc", b"def"]) == b"***"


def test_the_lines_of_a_key_are_hidden_one_by_one() -> None:
    redactor = Redactor(["-----BEGIN KEY-----\nMIIEvQIBADANBg\n"])
    assert redactor.text("first: MIIEvQIBADANBg!") == "first: ***!"


def test_json_values_are_gone_through() -> None:
    redactor = Redactor(["s3cret"])
    assert redactor.data({"a s3cret": ["s3cret", {"b": "xs3cretx"}], "n": 1, "t": None}) == {
        "a ***": ["***", {"b": "x***x"}],
        "n": 1,
        "t": None,
    }


def test_without_secrets_nothing_changes() -> None:
    assert Redactor([]).text("a") == "a"
    assert Redactor([""]).stream().feed(b"a") == b"a"


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [([b"a s3c", b"ret b"], b"a *** b"), ([b"\0bin s3c", b"ret"], b"\0bin s3cret"), ([], b"")],
)
async def test_text_content_is_redacted_and_binary_content_is_left_alone(pieces: list[bytes], expected: bytes) -> None:
    redacted = Redactor(["s3cret"]).pieces(in_pieces(*pieces))
    assert b"".join([piece async for piece in redacted]) == expected
