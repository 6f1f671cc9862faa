"""Where content waits on this machine until its hash is known."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import InfrastructureError

STALE_PART = 86400.0
"""Seconds without a change after which an unfinished file is of a process that died."""


class TooLarge(InfrastructureError):
    """The content is larger than what was allowed; nothing of it was kept."""


class Part:
    """Content on its way, at most `limit` bytes, in a file of the spool that is gone afterwards."""

    def __init__(self, spool: Path, name: str, limit: int) -> None:
        self.path = spool / f"part-{secrets.token_hex(8)}"
        self.size = 0
        self._name = name
        self._limit = limit
        self._hash = hashlib.sha256()

    def __enter__(self) -> Part:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        except OSError as exc:
            raise self._unwritable(exc) from exc
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):  # what could not be written is of no use to anybody now
            self._file.close()
        self.path.unlink(missing_ok=True)

    @property
    def sha256(self) -> str:
        """The hash of what was written."""
        return self._hash.hexdigest()

    def write(self, piece: bytes) -> None:
        """Add a piece. Raises `TooLarge`."""
        self.size += len(piece)
        if self.size > self._limit:
            raise TooLarge(f"artifact '{self._name}' is larger than {self._limit} bytes; it was not kept")
        self._hash.update(piece)
        try:
            self._file.write(piece)
        except OSError as exc:
            raise self._unwritable(exc) from exc

    def finish(self) -> None:
        """Have all of it on the disk: a name that outlives a crash must not outlive its content."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise self._unwritable(exc) from exc

    def _unwritable(self, exc: OSError) -> InfrastructureError:
        reason = f"artifacts cannot be written there: {exc.strerror}"
        return InfrastructureError(f"{self.path.parent}: {reason}; make room, or give this user the right to it")


def sweep(spool: Path) -> None:
    """Remove what processes that died have left."""
    for path in spool.glob("part-*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > STALE_PART:
                path.unlink()
