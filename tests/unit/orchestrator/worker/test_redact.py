"""Secrets do not get through, wherever the pieces are cut."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import AsyncIterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrator.redact import Redactor

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


@given(st.lists(st.text("ab", min_size=4, max_size=6), max_size=4), st.lists(st.text("abc6", max_size=5), max_size=8))
def test_a_stream_and_a_whole_text_give_the_same(secrets: list[str], pieces: list[str]) -> None:
    redactor = Redactor(secrets)
    assert streamed(redactor, [piece.encode() for piece in pieces]).decode() == redactor.text("".join(pieces))


def test_what_cannot_begin_a_secret_is_not_held_back() -> None:
    stream = Redactor([SECRET]).stream()
    assert stream.feed(b"plain text") == b"plain text"
    assert stream.feed(b"then hunt") == b"then "
    assert stream.feed(b"ing") == b"hunting"


def test_the_longest_secret_wins() -> None:
    assert Redactor(["abcd", "abcdef"]).text("x abcdef abcd") == "x *** ***"
    assert streamed(Redactor(["abcd", "abcdef"]), [b"abcd", b"ef"]) == b"***"


def test_a_secret_that_is_too_short_is_left_and_counted() -> None:
    redactor = Redactor(["abc", "1", " 7 ", "long enough"])
    assert redactor.text("abc 1 7 long enough") == "abc 1 7 ***"
    assert redactor.left == 3


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"abc"])
def test_base64_of_a_longer_text_shows_no_part_of_the_secret(before: bytes) -> None:
    encoded = base64.b64encode(before + SECRET.encode() + b" and more")
    cut = [encoded[:7], encoded[7:9], encoded[9:]]
    shown = streamed(Redactor([SECRET]), cut)
    assert b"***" in shown
    # What is left of the text around it, and the bits of a byte on either side.
    assert len(shown.replace(b"***", b"")) <= len(encoded) - len(SECRET) * 8 // 6 + 2


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40), st.lists(st.integers(0, 200), max_size=8))
def test_no_encoding_of_a_secret_gets_through_however_it_is_cut(secret: str, cuts: list[int]) -> None:
    assume(len(secret.strip()) >= 8)
    data = secret.encode()
    forms = [
        data,
        base64.b64encode(data),
        base64.urlsafe_b64encode(data),
        data.hex().encode(),
        quote(secret, safe="").encode(),
        quote_plus(secret).encode(),
        json.dumps(secret)[1:-1].encode(),
        json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
    ]
    redactor = Redactor([secret])
    for form in forms:
        places = [0, *sorted(min(cut, len(form)) for cut in cuts), len(form)]
        assert streamed(redactor, [form[a:b] for a, b in itertools.pairwise(places)]) == b"***"


def test_a_long_secret_is_hidden_in_lines_of_base64_too() -> None:
    lines = [f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ{number:02}" for number in range(26)]
    secret = "\n".join(["-----BEGIN KEY-----", *lines])
    encoded = base64.b64encode(secret.encode()).decode()
    wrapped = "\n".join(encoded[i : i + 76] for i in range(0, len(encoded), 76))
    assert set(Redactor([secret]).text(wrapped).split("\n")) == {"***"}


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
