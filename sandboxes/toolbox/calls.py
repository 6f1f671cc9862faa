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


@contextmanager
def call_scope(key: str) -> Iterator[None]:
    """Give the mutating calls of this context ids that begin with `key`."""
    token = _scope.set((key, itertools.count()))
    try:
        yield
    finally:
        _scope.reset(token)


def next_call_id() -> str | None:
    """The id of the next mutating call of this context; None outside of any scope."""
    scope = _scope.get()
    return None if scope is None else f"{scope[0]}#{next(scope[1])}"
