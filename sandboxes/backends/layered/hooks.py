"""Hooks of a policy: functions that see each operation of a backend before it happens, or with its result."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandboxes.backends.layered.steps import Call, Steps
from sandboxes.portal import portal


class PolicyRefused(Exception):
    """Raised by a `before` hook to refuse an operation. The message is the reason; the model gets it as the error."""


@dataclass(frozen=True)
class Operation:
    """One call of a backend's method."""

    name: str
    """The method, in its sync form: `read`, `upload_files`, `execute`."""
    paths: tuple[str, ...]
    """The paths that it is about: absolute and normalized, as given where they cannot be; none for `execute`."""
    arguments: Mapping[str, Any]
    """The arguments by the names that they have in the protocol, with the paths normalized."""


class Hook:
    """A hook, sync or async, that can be told things in both forms. An async one that is told by a sync call is waited for."""

    def __init__(self, function: Callable[..., Awaitable[None] | None] | None) -> None:
        self._function = function

    def tell(self, *things: Any) -> None:
        """Call the hook."""
        if self._function is not None and inspect.isawaitable(said := self._function(*things)):
            portal.run(_awaited(said))

    async def atell(self, *things: Any) -> None:
        """Call the hook, and await what it returns."""
        if self._function is not None and inspect.isawaitable(said := self._function(*things)):
            await said


async def _awaited(said: Awaitable[None]) -> None:
    await said


def refusal(before: Hook, operation: Operation) -> Steps[str | None]:
    """What the hook has against an operation, as an error; None: nothing."""
    try:
        yield [Call(before, "tell", (operation,))]
    except PolicyRefused as exc:
        return str(exc) if str(exc).startswith("Error: ") else f"Error: {exc or 'the policy refuses this'}"
    return None
