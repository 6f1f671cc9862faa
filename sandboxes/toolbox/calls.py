"""Idempotency ids of mutating calls, given by the caller's context and not by each method's signature.

    with call_scope(f"{run_id}:{tool_call_id}"):
        await backend.awrite(path, text)

The first mutating call in the scope has the id `KEY#0`, the next `KEY#1`: a worker that repeats the scope repeats the ids, and
the sandbox answers each call that it has already done with the recorded result.
"""

from __future__ import annotations

import contextvars
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

_scope: contextvars.ContextVar[tuple[str, itertools.count[int]] | None] = contextvars.ContextVar("call_scope", default=None)
_prefix: contextvars.ContextVar[str] = contextvars.ContextVar("call_prefix", default="")


@contextmanager
def call_scope(key: str) -> Iterator[None]:
    """Give the mutating calls of this context ids that begin with `key`, after the keys of the scopes it is nested in."""
    token = _scope.set((_prefix.get() + key, itertools.count()))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def nested_scopes() -> Iterator[None]:
    """Put the key of the scope that is open before those of the scopes inside: an agent that a tool call starts counts anew.

    What is called inside, but in no scope of its own, has no id: when it is resumed, the count would begin in another place.
    """
    scope = _scope.get()
    prefix = _prefix.set(f"{scope[0]}/" if scope else _prefix.get())
    outside = _scope.set(None)
    try:
        yield
    finally:
        _scope.reset(outside)
        _prefix.reset(prefix)


@contextmanager
def inner_scope(key: str) -> Iterator[None]:
    """`call_scope` below the scope that is open, or that `nested_scopes` has closed; where there is none, no scope."""
    scope = _scope.get()
    around = f"{scope[0]}:" if scope else _prefix.get()
    token = _scope.set((around + key, itertools.count()) if around else None)
    try:
        yield
    finally:
        _scope.reset(token)


def in_scope() -> bool:
    """Whether calls have ids here, or would have them in an `inner_scope`."""
    return _scope.get() is not None or bool(_prefix.get())


def next_call_id() -> str | None:
    """The id of the next mutating call of this context; None outside of any scope."""
    scope = _scope.get()
    return None if scope is None else f"{scope[0]}#{next(scope[1])}"
