"""A real server over a real home, and clients with keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from orchestrator.service import Service
from orchestrator.settings import Settings
from tests.served import Api, serving


@pytest.fixture(scope="module")
def api(service: Service) -> Iterator[Api]:
    """A server over the module's home, in which no worker runs unless `worker` is asked for."""
    with serving(service) as served:
        yield served


@pytest.fixture(scope="module")
def client(api: Api) -> httpx.Client:
    """A client with the admin's key."""
    return api.client()


@pytest.fixture(scope="module")
def worker(service: Service) -> None:
    """Have a worker in the module's home."""
    service.ensure_worker()


@pytest.fixture
def other_settings(new_home: Callable[..., Any]) -> Iterator[Callable[..., Settings]]:
    """Makes settings of a home of its own, from `NAME="value"` for `FANFOLD_NAME`."""
    with ExitStack() as homes:
        yield lambda **variables: homes.enter_context(new_home(**variables))
