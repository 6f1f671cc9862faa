"""The one way to a Docker engine: the SDK's client, its blocking calls in threads, its exceptions translated."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cached_property
from typing import ParamSpec, TypeVar

import docker
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException

from sandboxes.errors import ProviderUnavailable, SandboxError

REQUEST_SECONDS = 60
"""How long the engine may be silent during one request."""
THREADS = 16
"""Requests to the engine that are under way at once."""
POOL = 2 * THREADS
"""Connections that are kept open; making a sandbox takes a second one for a while."""

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def translated(what: str, address: str) -> Iterator[None]:
    """Turn the SDK's exceptions into ours; `what` continues "the Docker engine refused to ..."."""
    try:
        yield
    except APIError as exc:
        raise SandboxError(f"the Docker engine at {address} refused to {what}: {exc.explanation or exc}") from exc
    except (DockerException, RequestException, OSError) as exc:
        raise ProviderUnavailable(
            f"no Docker engine answers at {address} ({_reason(exc)}). "
            "Start it (as root: `systemctl start docker`, or `dockerd &`), or set DOCKER_HOST to one that runs; "
            "for 'permission denied', join the group 'docker'"
        ) from exc


def _reason(exc: BaseException) -> str:
    """The innermost cause: the SDK wraps it several times."""
    seen = exc
    while seen.__cause__ is not None or seen.__context__ is not None:
        seen = seen.__cause__ or seen.__context__ or seen
    return str(seen)[:200]


class Engine:
    """One engine. Cheap to make: the first use connects."""

    def __init__(self, base_url: str | None = None) -> None:
        self._base_url = base_url
        self._room = threading.Semaphore(THREADS)

    @property
    def address(self) -> str:
        """Where the engine is, for messages."""
        return self._base_url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"

    @property
    def is_here(self) -> bool:
        """Whether the engine sees this machine's files (it is reached by a Unix socket)."""
        return self.address.startswith(("unix:", "http+unix:", "/"))

    @cached_property
    def api(self) -> docker.APIClient:
        """The SDK's low-level client. Raises `DockerException` when no engine answers; use within `translated`."""
        arguments = kwargs_from_env()
        if self._base_url is not None:
            arguments["base_url"] = self._base_url
        if self.is_here:
            self._knock()
        return docker.APIClient(version="auto", timeout=REQUEST_SECONDS, max_pool_size=POOL, **arguments)

    def _knock(self) -> None:
        """Raise the plain `OSError` of a socket that nobody listens on: the SDK buries it, and leaks its own."""
        path = "/" + self.address.rpartition(":")[2].lstrip("/")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(REQUEST_SECONDS)
            sock.connect(path)

    async def run(self, what: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do blocking work with the engine in a thread, with its exceptions translated.

        The thread is none of an executor's: the interpreter waits for those at its end, and an engine may be silent for long.
        """
        answer: Future[T] = Future()

        def guarded() -> T:
            with translated(what, self.address):
                return work(*args, **kwargs)

        threading.Thread(target=self._answer, args=(answer, guarded), name="fanfold-docker", daemon=True).start()
        return await asyncio.wrap_future(answer)

    def _answer(self, answer: Future[T], work: Callable[[], T]) -> None:
        with self._room:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(work())
            except BaseException as exc:
                answer.set_exception(exc)

    async def aclose(self) -> None:
        """Close the connections to the engine."""
        if "api" in self.__dict__:
            self.api.close()
