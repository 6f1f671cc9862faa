"""What Daytona says, in our words."""

import pytest
from daytona import (
    DaytonaAuthenticationError,
    DaytonaBadRequestError,
    DaytonaConflictError,
    DaytonaConnectionError,
    DaytonaForbiddenError,
    DaytonaNotFoundError,
    DaytonaRateLimitError,
    DaytonaTimeoutError,
)
from daytona.common.errors import DaytonaServiceUnavailableError

from sandboxes.errors import (
    NotAuthenticated,
    ProviderUnavailable,
    QuotaExceeded,
    RateLimited,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxTimeout,
)
from sandboxes.providers.daytona.errors import is_refusal, retry_after, translated

MEANINGS = {
    "key": (DaytonaAuthenticationError("Invalid credentials", 401), NotAuthenticated),
    "permission": (DaytonaForbiddenError("no permission", 403), NotAuthenticated),
    "quota": (DaytonaForbiddenError("Total memory limit exceeded. Maximum allowed: 10.", 403), QuotaExceeded),
    "quota-as-bad-request": (DaytonaBadRequestError("Snapshot quota exceeded. Maximum allowed: 5", 400), QuotaExceeded),
    "money": (DaytonaBadRequestError("Organization is suspended: Depleted credits", 403), QuotaExceeded),
    "not-found": (DaytonaNotFoundError("Sandbox not found", 404), SandboxNotFound),
    "stopped": (DaytonaBadRequestError("no IP address found. Is the Sandbox started?", 400), SandboxGone),
    "rate": (DaytonaRateLimitError("slow down", 429), RateLimited),
    "late": (DaytonaTimeoutError("timed out"), SandboxTimeout),
    "ours-late": (TimeoutError(), SandboxTimeout),
    "away": (DaytonaServiceUnavailableError("down", 503), ProviderUnavailable),
    "unreachable": (DaytonaConnectionError("refused"), ProviderUnavailable),
    "socket": (ConnectionResetError("reset"), ProviderUnavailable),
    "conflict": (DaytonaConflictError("busy", 409), SandboxError),
}


@pytest.mark.parametrize(("theirs", "ours"), MEANINGS.values(), ids=MEANINGS)
def test_each_has_its_meaning(theirs, ours):
    told = translated(theirs, "make a sandbox")
    assert type(told) is ours
    assert str(theirs) in str(told) or ours is RateLimited


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("Wed, 21 Oct 2015", None)])
def test_a_delay_is_taken_from_the_header_whatever_its_case(header, seconds):
    assert retry_after(DaytonaRateLimitError("x", 429, {"retry-After": header})) == seconds


def test_only_what_was_understood_and_refused_is_known_not_to_have_happened():
    assert is_refusal(DaytonaBadRequestError("x", 400))
    assert not is_refusal(DaytonaConflictError("x", 409))
    assert not is_refusal(DaytonaTimeoutError("x", 408))
    assert not is_refusal(DaytonaConnectionError("x"))
