"""Signatures of what webhooks are sent: `t=<seconds since 1970>,v1=<HMAC-SHA256 of "t.body", hexadecimal>`.

The key is the webhook's secret, whole, as text. The time is signed too, so that what was once sent cannot be sent again later.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

from orchestrator.errors import BadInput

TOLERANCE = 300.0
"""Seconds that the clocks of sender and receiver may be apart, with the time on the way."""


class BadSignature(BadInput):
    """Somebody else has sent this, it was changed on its way, or it is too old."""


def sign(body: bytes, secret: str, at: float) -> str:
    """The value of the header `Fanfold-Signature` for a body that is sent at this time (seconds since 1970)."""
    moment = str(int(at))
    return f"t={moment},v1={_digest(body, secret, moment)}"


def verify(body: bytes, header: str, secret: str, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """What a webhook was sent, when it is genuine.

    `body` are the very bytes that came, `header` is the value of `Fanfold-Signature`, and `tolerance` is in seconds. The same
    delivery may come twice: its `id` says so.

    Raises `BadSignature`.
    """
    fields = [part.strip().partition("=") for part in header.split(",")]
    moments = [value for name, _, value in fields if name == "t"]
    given = [value for name, _, value in fields if name == "v1"]
    if len(moments) != 1 or not (moments[0].isascii() and moments[0].isdigit()) or not given:
        raise BadSignature("the header Fanfold-Signature is not 't=<seconds>,v1=<hexadecimal digits>'")
    expected = _digest(body, secret, moments[0]).encode()
    if not any(hmac.compare_digest(expected, one.encode("utf-8", "surrogatepass")) for one in given):
        raise BadSignature("the signature is not of this body and this secret: check the secret, and verify the raw bytes")
    if abs(time.time() - float(moments[0])) > tolerance:
        raise BadSignature(f"it was signed more than {tolerance:g} seconds ago or ahead: check this machine's clock")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise BadSignature("the body is no JSON object")
    return found


def _digest(body: bytes, secret: str, moment: str) -> str:
    return hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
