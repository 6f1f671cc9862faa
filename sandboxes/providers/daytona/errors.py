"""The seam of errors: what Daytona and its SDK say, in our words."""

from __future__ import annotations

from typing import Final

import aiohttp
import obstore.exceptions
from daytona import (
    DaytonaAuthenticationError,
    DaytonaConflictError,
    DaytonaConnectionError,
    DaytonaError,
    DaytonaForbiddenError,
    DaytonaNotFoundError,
    DaytonaRateLimitError,
    DaytonaTimeoutError,
)

from sandboxes.errors import (
    FanfoldSandboxError,
    NotAuthenticated,
    ProviderUnavailable,
    QuotaExceeded,
    RateLimited,
    SandboxError,
    SandboxGone,
    SandboxNotFound,
    SandboxTimeout,
)

SAID: Final = 500
"""Characters of what the platform said that are told."""
_UNAVAILABLE: Final = (500, 502, 503, 504)
_FULL: Final = ("quota", "limit exceeded", "limits exceeded", "upgrade your tier", "credit", "suspended", "depleted")
"""How the platform words that an account has no room, or no money: it has no status of its own for that."""
_NOT_STARTED: Final = ("no ip address", "not started", "not running", "must be in started state")


def is_transport(exc: BaseException) -> bool:
    """Whether the platform could not be reached, or not answer: what it may have done is not known."""
    if isinstance(exc, DaytonaConnectionError | aiohttp.ClientError | OSError):
        return type(exc) is not TimeoutError  # that one is our own deadline
    if isinstance(exc.__cause__, obstore.exceptions.BaseError):
        return True  # its storage for the files of a build
    return isinstance(exc, DaytonaError) and exc.status_code in _UNAVAILABLE


def retry_after(exc: DaytonaError) -> float | None:
    """Seconds that the platform asks to wait; None when it does not say."""
    for name, value in exc.headers.items():
        if name.lower() == "retry-after":
            try:
                return max(0.0, float(value))
            except ValueError:
                return None
    return None


def translated(exc: BaseException, what: str, *, retried: float = 0) -> FanfoldSandboxError:
    """One of ours for an exception of the SDK; `what` continues "Daytona refused to ...". `retried`: for how many seconds."""
    said = str(exc)[:SAID] or type(exc).__name__
    status = getattr(exc, "status_code", None)
    if is_full(exc):
        return QuotaExceeded(f"Daytona has no room to {what}: {said}. Destroy sandboxes, or raise the limits of the account")
    if isinstance(exc, DaytonaAuthenticationError):
        return NotAuthenticated(f"Daytona does not know the key: {said}. Set DAYTONA_API_KEY to one that is good")
    if isinstance(exc, DaytonaForbiddenError):
        return NotAuthenticated(f"the key may not {what} on Daytona: {said}")
    if isinstance(exc, DaytonaRateLimitError):
        delay = retry_after(exc)
        when = "later" if delay is None else f"in {delay:g} s"
        return RateLimited(f"Daytona takes no more requests: try to {what} {when}", retry_after=delay)
    if isinstance(exc, DaytonaNotFoundError):
        return SandboxNotFound(f"Daytona cannot {what}: {said}")
    if status == 400 and any(word in said.lower() for word in _NOT_STARTED):
        return SandboxGone(f"Daytona cannot {what}: the sandbox does not run ({said})")
    if is_transport(exc):
        tried = f", tried again for {retried:.0f} s" if retried >= 1 else ""
        return ProviderUnavailable(f"Daytona does not answer ({said}{tried}). Is DAYTONA_API_URL right, and the network up?")
    if isinstance(exc, DaytonaTimeoutError | TimeoutError):
        return SandboxTimeout(f"Daytona did not {what} in time: {said}")
    return SandboxError(f"Daytona refused to {what}: {said}")


def is_full(exc: BaseException) -> bool:
    """Whether the account has no room for what was asked."""
    status = getattr(exc, "status_code", None)
    return status == 402 or (status in (400, 403) and any(word in str(exc).lower() for word in _FULL))


def is_refusal(exc: BaseException) -> bool:
    """Whether nothing was done: the platform has understood the request, and said no."""
    status = getattr(exc, "status_code", None)
    return status is not None and 400 <= status < 500 and not isinstance(exc, DaytonaConflictError | DaytonaTimeoutError)
