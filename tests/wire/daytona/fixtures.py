"""What tests against a wire server share: the servers, and providers that use them."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from sandboxes.providers.daytona import DaytonaProvider
from tests.wire.daytona.server import WireServer

END_SECONDS: Final = 30.0


@pytest.fixture(scope="module")
def daytona_server() -> Iterator[WireServer]:
    """A server of a module's own, with the class of sandboxes that an account has by default."""
    with WireServer() as server:
        yield server


@dataclass(frozen=True)
class Elsewhere:
    """A server in a process of its own, so that what it holds in memory is not taken for what the provider holds."""

    key: str
    api_url: str

    def names(self) -> list[str]:
        """The names of sandboxes, with their labels, and of snapshots that are there."""
        found: list[str] = httpx.get(f"{self.api_url.removesuffix('/api')}/control/names").json()
        return found


@contextmanager
def served_elsewhere(*arguments: str) -> Iterator[Elsewhere]:
    """`python -m tests.wire.daytona`, for a while."""
    command = [sys.executable, "-m", "tests.wire.daytona", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as process:
        try:
            assert process.stdout is not None
            told = dict(process.stdout.readline().removeprefix("export ").strip().split("=", 1) for _ in range(3))
            yield Elsewhere(told["DAYTONA_API_KEY"], told["DAYTONA_API_URL"])
        finally:
            process.terminate()
            process.wait(END_SECONDS)


@pytest.fixture(scope="module")
def daytona_elsewhere() -> Iterator[Elsewhere]:
    """A server of a module's own, in another process."""
    with served_elsewhere() as server:
        yield server


@pytest.fixture(scope="module")
def daytona_machines_elsewhere() -> Iterator[Elsewhere]:
    """One whose sandboxes can be forked."""
    with served_elsewhere("--class", "linux-vm") as server:
        yield server


def provider_of(server: WireServer | Elsewhere, image: str = "") -> functools.partial[DaytonaProvider]:
    """A factory of providers that use this server; it can be pickled."""
    return functools.partial(DaytonaProvider, image, api_key=server.key, api_url=server.api_url, target="us")


def remains(server: Elsewhere, ids: list[str]) -> list[str]:
    """What there is on the platform that carries any of these ids in its name or labels."""
    return [name for name in server.names() if any(id_ in name for id_ in ids)]
