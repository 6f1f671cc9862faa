"""The one seam between the SDK's exceptions and ours."""

from __future__ import annotations

from typing import Final

from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from modal import exception as theirs
from modal_proto import api_pb2

from sandboxes.errors import (
    FanfoldSandboxError,
    ImageNotFound,
    InvalidSpec,
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
"""Characters that are told of what the platform said."""
KEYS: Final = "Set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET to a token of your workspace, or run `modal token new` on this machine"
_LOST = (theirs.ServiceError, theirs.InternalError, theirs.ConnectionError, theirs.ClientClosed)
_BROKEN = (GRPCError, ProtocolError, StreamTerminatedError, OSError, EOFError)
"""What the SDK lets through. Its own errors are of the first kind, too: they are looked at before."""
_RATE = ("rate limit", "too many requests", "throttl")


class Late(Exception):
    """Our own deadline is over. `what` of it was sent may still be done."""


def translated(what: str, exc: BaseException) -> FanfoldSandboxError:
    """Our error for what happened while Modal was asked to `what`. What is no error of theirs is a bug, and raised again."""
    said = _said(exc)
    if isinstance(exc, FanfoldSandboxError):
        return exc
    if isinstance(exc, theirs.AuthError | theirs.PermissionDeniedError):
        return NotAuthenticated(f"Modal refuses to {what} with this key: {said}. {KEYS}")
    if isinstance(exc, theirs.ResourceExhaustedError):
        return _exhausted(what, exc, said)
    if isinstance(exc, theirs.ImageBuildError):
        return ImageNotFound(f"Modal has no such image: {said}")
    if isinstance(exc, theirs.SandboxTimeoutError | theirs.SandboxTerminatedError | theirs.ConflictError):
        return SandboxGone(f"the Modal sandbox has ended: {said}")
    if isinstance(exc, theirs.NotFoundError):
        return SandboxNotFound(f"Modal does not know what it was to {what}: {said}")
    if isinstance(exc, theirs.InvalidError):
        return InvalidSpec(f"Modal refuses to {what}: {said}")
    if isinstance(exc, Late):
        return ProviderUnavailable(f"Modal did not {what} within {said}: its service or the network is slow or gone. Try again")
    if isinstance(exc, theirs.TimeoutError | TimeoutError):
        return SandboxTimeout(f"Modal took too long to {what}: {said}")
    if isinstance(exc, theirs.Error) and not isinstance(exc, _LOST):
        return SandboxError(f"Modal failed to {what}: {said}")
    if isinstance(exc, (*_LOST, *_BROKEN)):
        return ProviderUnavailable(f"Modal cannot be reached to {what}: {said}. Look at MODAL_SERVER_URL and the network")
    raise exc


def _exhausted(what: str, exc: Exception, said: str) -> FanfoldSandboxError:
    """A platform that says when to come again limits the rate; one that speaks of neither has no more room."""
    details = getattr(exc, "_grpc_details", None) or ()
    if policy := next((one for one in details if isinstance(one, api_pb2.RPCRetryPolicy)), None):
        delay = policy.retry_after_secs
        return RateLimited(f"Modal takes no more requests for {delay:g} s: {said}", retry_after=delay)
    if any(word in said.lower() for word in _RATE):
        return RateLimited(f"Modal takes no more requests for now: {said}")
    return QuotaExceeded(f"the account has no room left to {what}: {said}. End sandboxes, or raise the workspace's limits")


def _said(exc: BaseException) -> str:
    text = " ".join(str(exc).split()) or type(exc).__name__
    return text[:SAID].rstrip(".")
