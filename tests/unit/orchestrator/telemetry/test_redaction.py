"""Secrets that the process knows, and what looks like a key, are hidden."""

from __future__ import annotations

import pytest

from orchestrator.telemetry.redaction import Masks, forms_of, without_keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***"),
        ("{'authorization': 'Basic dXNlcjpwYXNz'}", "{'authorization': 'Basic ***'}"),
        ("sent bearer 0123456789abcdef", "sent bearer ***"),
        ("the bearer certificate, a basic understanding", "the bearer certificate, a basic understanding"),
        ("key ffk_4fjH3k_Aab-12 is revoked", "key *** is revoked"),
        ("sk-" + "a1" * 12, "***"),
        ("postgresql://fanfold:hunter2@db:5432/x?a=b", "postgresql://fanfold:***@db:5432/x?a=b"),
        ("redis://:p%40ss@cache/0", "redis://:***@cache/0"),
        ("see http://host:8080/path and mail a@b.example", "see http://host:8080/path and mail a@b.example"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmN", "***"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "***"),
    ],
)
def test_what_looks_like_a_key_is_hidden_and_nothing_else(text: str, expected: str) -> None:
    assert without_keys(text) == expected


def test_a_secret_is_hidden_as_long_as_somebody_needs_it_to_be() -> None:
    masks = Masks()
    with masks.hiding(["hunter2-secret"]):
        with masks.hiding(["hunter2-secret", "another-one"]):
            assert masks.text("hunter2-secret another-one") == "*** ***"
        assert masks.text("hunter2-secret another-one") == "*** another-one"
    assert masks.text("hunter2-secret") == "hunter2-secret"


def test_values_are_gone_through_and_what_is_no_text_becomes_one() -> None:
    masks = Masks()
    with masks.hiding(["s3cret-value"]):
        told = masks.data({"s3cret-value": [1, None, True, ("as3cret-valueb", ValueError("s3cret-value"))]})
    assert told == {"***": [1, None, True, ["a***b", "***"]]}


def test_what_is_too_short_to_be_a_secret_has_no_forms() -> None:
    assert forms_of("abc") == set()
    assert forms_of("  a\n ") == set()
    assert "abcd" in forms_of("abcd")
