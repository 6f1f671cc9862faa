"""Work on one backend that is written once and runs sync and async, as a generator of the calls that it wants made.

It is `sandboxes.backends.layered.steps` for one backend and one call at a time, so that the work need not know the backend.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sandboxes.backends.layered import steps as many
from sandboxes.protocol import BackendProtocol

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """One call of a backend: the sync name of a method of the protocol, and its arguments."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


Steps = Generator[Call, Any, T]


def run(steps: Steps[T], backend: BackendProtocol) -> T:
    """Make the calls, one after the other. What a call raises is raised at its `yield`."""
    return many.run(_bound(steps, backend))


async def arun(steps: Steps[T], backend: BackendProtocol) -> T:
    """`run` with the backend's async methods."""
    return await many.arun(_bound(steps, backend))


def _bound(steps: Steps[T], backend: BackendProtocol) -> many.Steps[T]:
    advance: Any = steps.send
    answer: Any = None
    while True:
        try:
            call = advance(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            [answer] = yield [many.Call(backend, call.name, call.args, dict(call.kwargs))]
            advance = steps.send
        except Exception as exc:
            advance, answer = steps.throw, exc
