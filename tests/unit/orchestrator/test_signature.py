"""Signatures of what webhooks are sent."""

from __future__ import annotations

import hashlib
import hmac
import time

import pytest

from orchestrator.errors import BadInput
from orchestrator.signature import BadSignature, sign, verify

SECRET = "whsec_of-a-test-0123456789"
BODY = b'{"id":"dlv-1","event":"run.finished"}'


def test_a_signature_is_the_hmac_of_time_and_body() -> None:
    expected = hmac.new(SECRET.encode(), b"1700000000." + BODY, hashlib.sha256).hexdigest()
    assert sign(BODY, SECRET, 1700000000.9) == f"t=1700000000,v1={expected}"


def test_what_was_signed_is_genuine() -> None:
    assert verify(BODY, sign(BODY, SECRET, time.time()), SECRET) == {"id": "dlv-1", "event": "run.finished"}


def test_of_several_signatures_one_is_enough() -> None:
    header = sign(BODY, SECRET, time.time()).replace(",", ",v1=00,v0=11, ")
    assert verify(BODY, header, SECRET)["id"] == "dlv-1"


WRONG = ["", "x", "t=,v1=", "v1=00", "t=1", "t=1,t=2,v1=00", "t=-1,v1=00", "t=²,v1=00", "t=1,v1=\udc80"]


@pytest.mark.parametrize("header", WRONG)
def test_a_header_that_is_none_is_refused(header: str) -> None:
    with pytest.raises(BadSignature):
        verify(BODY, header, SECRET)


def test_another_body_or_secret_is_refused() -> None:
    header = sign(BODY, SECRET, time.time())
    with pytest.raises(BadSignature, match="not of this body"):
        verify(BODY + b" ", header, SECRET)
    with pytest.raises(BadSignature, match="not of this body"):
        verify(BODY, header, SECRET + "x")


@pytest.mark.parametrize("late", [-400, 400])
def test_what_was_signed_long_ago_or_ahead_is_refused(late: float) -> None:
    header = sign(BODY, SECRET, time.time() - late)
    with pytest.raises(BadSignature, match="more than 300 seconds"):
        verify(BODY, header, SECRET)
    assert verify(BODY, header, SECRET, tolerance=1000)


def test_a_bad_signature_is_bad_input() -> None:
    assert issubclass(BadSignature, BadInput)


def test_a_genuine_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(BadSignature, match="no JSON object"):
        verify(b"[]", sign(b"[]", SECRET, time.time()), SECRET)
