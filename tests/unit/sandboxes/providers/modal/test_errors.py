"""Each exception of Modal's SDK becomes the error that says what to do."""

import pytest
from grpclib import GRPCError, Status
from modal import exception as theirs
from modal._grpc_client import grpc_error_to_modal_exception
from modal_proto import api_pb2

from sandboxes.errors import (
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
from sandboxes.providers.modal.errors import Late, translated


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (theirs.AuthError("bad token"), NotAuthenticated),
        (theirs.PermissionDeniedError("not yours"), NotAuthenticated),
        (theirs.ResourceExhaustedError("limit of sandboxes"), QuotaExceeded),
        (theirs.ResourceExhaustedError("Rate limit exceeded"), RateLimited),
        (theirs.ImageBuildError("no such image", "im-1"), ImageNotFound),
        (theirs.NotFoundError("gone"), SandboxNotFound),
        (theirs.ConflictError("already finished"), SandboxGone),
        (theirs.SandboxTimeoutError(), SandboxGone),
        (theirs.SandboxTerminatedError(), SandboxGone),
        (theirs.InvalidError("cannot be"), InvalidSpec),
        (theirs.TimeoutError("slow"), SandboxTimeout),
        (TimeoutError(), SandboxTimeout),
        (Late("5 s"), ProviderUnavailable),
        (theirs.ServiceError("down"), ProviderUnavailable),
        (theirs.InternalError("broken"), ProviderUnavailable),
        (theirs.ConnectionError("refused"), ProviderUnavailable),
        (theirs.ClientClosed("closed"), ProviderUnavailable),
        (ConnectionRefusedError("refused"), ProviderUnavailable),
        (GRPCError(Status.UNAVAILABLE, "down"), ProviderUnavailable),
        (theirs.DataLossError("lost"), SandboxError),
    ],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_an_exception_of_the_sdk_becomes_the_error_that_it_means(exc, expected):
    made = translated("make a sandbox", exc)
    assert type(made) is expected
    assert str(exc).rstrip(".") in str(made)


def test_a_limited_rate_tells_its_delay():
    exc = grpc_error_to_modal_exception(
        GRPCError(Status.RESOURCE_EXHAUSTED, "slow down", [api_pb2.RPCRetryPolicy(retry_after_secs=12.5)])
    )
    made = translated("make a sandbox", exc)
    assert isinstance(made, RateLimited)
    assert made.retry_after == 12.5


def test_what_is_ours_stays_what_it_is():
    ours = InvalidSpec("no")
    assert translated("make a sandbox", ours) is ours


def test_a_bug_stays_a_bug():
    with pytest.raises(KeyError):
        translated("make a sandbox", KeyError("x"))


def test_a_long_story_is_cut():
    assert len(str(translated("make a sandbox", theirs.ServiceError("x" * 100_000)))) < 1000
