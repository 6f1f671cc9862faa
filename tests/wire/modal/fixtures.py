"""Fixtures of tests that run against a wire server: import them into a conftest or a test module."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.conftest import engine_problem, missing
from tests.wire.modal.server import WireServer, serving

IMAGE = "fanfold-test/base:latest"


@pytest.fixture(scope="module")
def modal_server() -> Iterator[WireServer]:
    """A server, whose variables are in the environment of this process and of those that it starts."""
    if problem := engine_problem():
        missing(problem)
    with serving() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.delenv("MODAL_MAX_THROTTLE_WAIT", raising=False)
        yield server
        assert "MODAL_TOKEN_ID" in os.environ
