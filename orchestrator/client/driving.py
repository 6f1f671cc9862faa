"""One implementation for both clients: everything is written once, as coroutines, and the blocking client drives these.

Over a blocking transport a coroutine never waits for an event loop: each `await` in it is done when it returns. So one step
runs it to its end, without a loop and without a thread, wherever it is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from sandboxes.portal import finished

P = ParamSpec("P")
R = TypeVar("R")
Room = TypeVar("Room")


class Blocking(Generic[Room]):
    """The blocking form of a room; its methods are those of the other form, each named with `blocking` or `iterating`."""

    def __init__(self, room: Room) -> None:
        self._room = room


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The blocking form of a room's method."""

    @wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return finished(method(self._room, *args, **kwargs))

    return call


def iterating(method: Callable[Concatenate[Any, P], AsyncIterator[R]]) -> Callable[Concatenate[Any, P], Iterator[R]]:
    """The blocking form of a room's method that is an asynchronous generator."""

    @wraps(method)
    def call(self: Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return _drive_all(method(self._room, *args, **kwargs))

    return call


def _drive_all(source: AsyncIterator[R]) -> Generator[R]:
    try:
        while True:
            try:
                item = finished(_next(source))
            except StopAsyncIteration:
                return
            yield item
    finally:
        if isinstance(source, AsyncGenerator):
            finished(_close(source))


async def _next(source: AsyncIterator[R]) -> R:
    return await anext(source)


async def _close(source: AsyncGenerator[Any, Any]) -> None:
    await source.aclose()
