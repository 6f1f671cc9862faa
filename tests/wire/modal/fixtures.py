"""Fixtures of tests that run against a wire server: import them into a conftest or a test module."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import engine_problem, missing
from tests.wire.modal.server import STOP_SECONDS, WireServer, serving

IMAGE = "fanfold-test/base:latest"
END_SECONDS = STOP_SECONDS + 10


@pytest.fixture(scope="module")
def modal_server() -> Iterator[WireServer]:
    """A server in this process, which can be made to fail. Its variables are in the environment."""
    _need_engine()
    with serving() as server, exported(server.environment):
        yield server


@pytest.fixture(scope="module")
def modal_by_hand() -> Iterator[dict[str, str]]:
    """A server in a process of its own, as it is started by hand. The variables that it prints are in the environment."""
    _need_engine()
    process = subprocess.Popen([sys.executable, "-m", "tests.wire.modal"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = iter(process.stdout.readline, "")
        lines = itertools.takewhile(lambda line: line.startswith("export "), said)
        found = dict(line.removeprefix("export ").strip().split("=", 1) for line in lines)
        with exported(found):
            yield found
    finally:
        process.terminate()
        assert process.wait(END_SECONDS) == 0
        process.stdout.close()


def _need_engine() -> None:
    if problem := engine_problem():
        missing(problem)


@contextlib.contextmanager
def exported(variables: dict[str, str]) -> Iterator[None]:
    """Have these variables in the environment, for this process and those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.delenv("MODAL_MAX_THROTTLE_WAIT", raising=False)
        yield
