"""Letting a sandbox stand still while others are made from its files, for the providers that do so by layers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sandboxes.errors import FanfoldSandboxError, SandboxError

if TYPE_CHECKING:
    from sandboxes.providers.base import Forked, SandboxHandle, SandboxProvider

T = TypeVar("T")


async def while_still(
    provider: SandboxProvider,
    handle: SandboxHandle,
    went_on: bool,
    work: Callable[[], Awaitable[T]],
    stays: Callable[[T], bool] = lambda _: False,
) -> T:
    """Pause a sandbox and do `work`. Then it goes on if it `went_on` before, unless the result says that it `stays` so."""

    async def go_on() -> None:
        if went_on:
            with contextlib.suppress(SandboxError):  # refused: others stand on it
                await asyncio.shield(provider.resume(handle))

    try:
        await to_its_end(provider.pause(handle))
        done = await work()
    except BaseException:
        await go_on()
        raise
    if not stays(done):
        await go_on()
    return done


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await what a thread does. A thread cannot be cancelled: when we are, it is waited for, too."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def any_made(made: Sequence[Forked]) -> bool:
    """Whether there is a child."""
    return not all(isinstance(one, FanfoldSandboxError) for one in made)
