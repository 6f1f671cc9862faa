"""The two transports: httpx, blocking and asynchronous. All else is written once, over `Transport`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx

R = TypeVar("R")

PIECE = 1024 * 1024
"""Bytes that are read of a file at once."""
CONNECT_TIMEOUT = 10.0
"""Seconds for a connection, however long the answer may take."""


@dataclass(frozen=True)
class Ask:
    """One request, which can be sent any number of times."""

    method: str
    path: str
    """With the prefix, quoted."""
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Path | None = None
    """A file is streamed."""
    repeatable: bool = False
    """Whether asking twice does no more than asking once."""
    patience: float | None = None
    """Seconds that the answer, or the next piece of it, may take; the client's own timeout when it is None."""


@dataclass(frozen=True)
class Stream:
    """An answer whose body comes in pieces."""

    response: httpx.Response
    """Its status and headers."""
    pieces: AsyncIterator[bytes]


class Transport(Protocol):
    """How requests go out. Raises httpx's `TransportError` when no whole answer comes back."""

    async def send(self, ask: Ask) -> httpx.Response:
        """The answer, its body read."""
        ...

    def stream(self, ask: Ask) -> AbstractAsyncContextManager[Stream]:
        """The answer, its body to be read."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def work(self, function: Callable[[], R]) -> R:
        """Do something that takes long or touches the disk."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""
        ...


class BlockingTransport:
    """Over `httpx.Client`: every await is done when it returns. Safe to use from many threads."""

    def __init__(self, **options: Any) -> None:
        self._client = httpx.Client(**options)

    async def send(self, ask: Ask) -> httpx.Response:
        """See `Transport`."""
        content = _pieces(ask.content) if isinstance(ask.content, Path) else ask.content
        return self._client.send(self._client.build_request(**_arguments(ask), content=content))

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[Stream]:
        """See `Transport`."""
        response = self._client.send(self._client.build_request(**_arguments(ask)), stream=True)
        try:
            yield Stream(response, _each(response.iter_bytes()))
        finally:
            response.close()

    async def sleep(self, seconds: float) -> None:
        """See `Transport`."""
        time.sleep(seconds)  # noqa: ASYNC251  # no event loop runs it

    async def work(self, function: Callable[[], R]) -> R:
        """See `Transport`."""
        return function()

    async def close(self) -> None:
        """See `Transport`."""
        self._client.close()


class AsyncTransport:
    """Over `httpx.AsyncClient`."""

    def __init__(self, **options: Any) -> None:
        self._client = httpx.AsyncClient(**options)

    async def send(self, ask: Ask) -> httpx.Response:
        """See `Transport`."""
        content = self._pieces(ask.content) if isinstance(ask.content, Path) else ask.content
        return await self._client.send(self._client.build_request(**_arguments(ask), content=content))

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[Stream]:
        """See `Transport`."""
        response = await self._client.send(self._client.build_request(**_arguments(ask)), stream=True)
        try:
            yield Stream(response, response.aiter_bytes())
        finally:
            await response.aclose()

    async def sleep(self, seconds: float) -> None:
        """See `Transport`."""
        await asyncio.sleep(seconds)

    async def work(self, function: Callable[[], R]) -> R:
        """See `Transport`."""
        return await asyncio.to_thread(function)

    async def close(self) -> None:
        """See `Transport`."""
        await self._client.aclose()

    async def _pieces(self, path: Path) -> AsyncIterator[bytes]:
        file = await self.work(lambda: path.open("rb"))
        try:
            while piece := await self.work(lambda: file.read(PIECE)):
                yield piece
        finally:
            file.close()


def _arguments(ask: Ask) -> dict[str, Any]:
    headers = dict(ask.headers)
    if isinstance(ask.content, Path):
        headers["Content-Length"] = str(ask.content.stat().st_size)
    arguments = {"method": ask.method, "url": ask.path, "params": ask.params or None, "headers": headers}
    return arguments if ask.patience is None else {**arguments, "timeout": timeouts(ask.patience)}


def timeouts(seconds: float) -> httpx.Timeout:
    """That much for the answer, or the next piece of it, and less for the connection."""
    return httpx.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
