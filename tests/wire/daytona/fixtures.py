"""What tests against a wire server share: the servers, and providers that use them."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from sandboxes.providers.daytona import DaytonaProvider
from tests.wire.daytona.server import WireServer


@pytest.fixture(scope="module")
def daytona_server() -> Iterator[WireServer]:
    """A server of a module's own, with the class of sandboxes that an account has by default."""
    with WireServer() as server:
        yield server


@pytest.fixture(scope="module")
def daytona_vm_server() -> Iterator[WireServer]:
    """One whose sandboxes can be forked."""
    with WireServer(sandbox_class="linux-vm") as server:
        yield server


def provider_of(server: WireServer, image: str = "") -> functools.partial[DaytonaProvider]:
    """A factory of providers that use this server; it can be pickled."""
    return functools.partial(DaytonaProvider, image, api_key=server.key, api_url=server.api_url, target="us")


def remains(server: WireServer, ids: list[str]) -> list[str]:
    """Sandboxes and snapshots of the platform that carry any of these ids in their names or labels."""
    boxes = [f"{one.name} {one.labels}" for one in server.world.boxes.values() if one.state not in ("destroyed", "destroying")]
    kept = [one.name for one in server.world.kept.values()]
    return [name for name in [*boxes, *kept] if any(id_ in name for id_ in ids)]
