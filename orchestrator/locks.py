"""A lock that processes of one machine share, with a deadline. The kernel lets go of it when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import InfrastructureError

POLL = 0.02
"""Seconds between two looks at a lock that somebody else holds."""


@contextmanager
def file_lock(path: Path, *, timeout: float, why: str) -> Iterator[None]:
    """Hold `path` as a lock. Raises `InfrastructureError` when it cannot be had within `timeout` seconds."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout
        while not _try(descriptor):
            if time.monotonic() > deadline:
                raise InfrastructureError(f"{path}: another process holds this lock for over {timeout:.0f} s ({why})")
            time.sleep(POLL)
        yield
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
