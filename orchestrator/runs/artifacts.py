"""What runs left, kept by its hash: `ab/cdef...` below one folder or bucket, each content once, whoever left it.

Content goes through a file of this machine, because its name is known when it has ended. Runs refer to it by the hash in the
record; names that a sandbox chose are never part of a key.
"""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.runs.content import PIECE, ContentReader
from orchestrator.runs.database import now
from orchestrator.runs.models import Artifact
from orchestrator.runs.objects import Objects
from orchestrator.runs.spool import Part, sweep

MAX_NAME_BYTES = 1024
REMOVE_AFTER = 3600.0
"""Seconds that content stays at least after it was stored: a run that left it may not be in the record yet."""
RENEW_AFTER = REMOVE_AFTER / 2
"""Seconds after which content that is left once more is stored again, so that nobody removes it as old."""
OWNER = "installation"
"""The object that says whose the place is."""
MAX_OWNER_BYTES = 200
_WRONG_PLACE = (FileNotFoundError, PermissionError, NotADirectoryError, FileExistsError, NotImplementedError)
"""What only the operator can mend."""


class ArtifactStore:
    """Content by its SHA-256. Safe to use from many threads, processes and machines."""

    def __init__(self, url: str, spool: Path) -> None:
        """Raises `BadInput` when `url` cannot be a place for artifacts. `spool` is where content waits for a bucket."""
        self._objects = Objects(url)
        # Beside the objects of a local folder, so that a rename is all it takes.
        self._spool = self._objects.folder / ".spool" if self._objects.folder else spool

    def check(self, installation: str) -> None:
        """Take the place for the record with this id, or see that it is its own; store nothing there and read it.

        Raises `BadInput` when there is no such place, no right to it, or when it is another record's: each would remove the
        other's content as nobody's.
        """
        sweep(self._spool)
        try:
            self._take(installation)
            with Part(self._spool, "nothing", 0) as part:
                self._place(part)
            self.open(part.sha256, verify=True).read()
        except InfrastructureError as exc:
            if isinstance(exc.__cause__, _WRONG_PLACE):
                raise BadInput(str(exc)) from exc
            raise

    def _take(self, installation: str) -> None:
        if self._objects.info(OWNER) is None:
            with Part(self._spool, OWNER, MAX_OWNER_BYTES) as part:
                part.write(installation.encode())
                part.finish()
                self._objects.put(part.path, OWNER)
        owner = self._objects.read(OWNER, 0, MAX_OWNER_BYTES).decode(errors="replace")
        if owner != installation:
            raise BadInput(
                f"artifacts at {self._objects.url}: the place is of the record {owner!r}, and this is {installation!r}; check"
                " FANFOLD_DATABASE_URL, or set FANFOLD_ARTIFACTS_URL to a place of its own (when that record is gone for good,"
                f" remove {self._objects.place(OWNER)})"
            )

    async def keep(self, run_id: str, name: str, content: AsyncIterable[bytes], *, limit: int) -> Artifact:
        """Store content; what to record of it, soon (`REMOVE_AFTER`).

        Raises `TooLarge`, `BadInput` for an impossible name, `InfrastructureError`, and whatever `content` raises; nothing was
        stored then.
        """
        check_artifact_name(name)
        with Part(self._spool, name, limit) as part:
            async for piece in content:
                await asyncio.to_thread(part.write, piece)
            await asyncio.to_thread(self._place, part)
        return Artifact(run_id, name, part.size, part.sha256, now())

    def keep_file(self, run_id: str, name: str, path: Path) -> Artifact:
        """Store a file of this machine; the file stays. What it gives and raises is as with `keep`."""
        with path.open("rb") as file, Part(self._spool, name, path.stat().st_size) as part:
            while piece := file.read(PIECE):
                part.write(piece)
            self._place(part)
        return Artifact(run_id, name, part.size, part.sha256, now())

    def open(self, sha256: str, *, verify: bool = False) -> BinaryIO:
        """Content as a file to be closed, fetched as it is read.

        With `verify` the read that reaches the end raises `InfrastructureError` when the content is not what was stored.
        Raises `InfrastructureError` when there is no such content.
        """
        key = _key(sha256)
        info = self._objects.info(key)
        if info is None:
            raise InfrastructureError(
                f"artifacts at {self._objects.url}: the content {sha256} is not there: it was removed,"
                " or FANFOLD_ARTIFACTS_URL was another one when the run left it"
            )
        reader = ContentReader(
            lambda start, end: self._objects.read(key, start, end), info.size, sha256=sha256 if verify else None
        )
        return io.BufferedReader(reader, PIECE)

    def pieces(self, sha256: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes of content from `start` up to `end` (default: its end), in pieces. Raises as `open` does."""
        with self.open(sha256) as file:
            size = file.seek(0, io.SEEK_END)
            left = (size if end is None else min(end, size)) - file.seek(start)
            while left > 0 and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece

    async def stream(self, sha256: str) -> AsyncIterator[bytes]:
        """The bytes of content, in pieces, while others go on. Raises as `open` does."""
        pieces = self.pieces(sha256)
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece

    def place(self, sha256: str) -> Path | str:
        """Where content is: a path of this machine, or an address."""
        return self._objects.place(_key(sha256))

    def remove(self, digests: Iterable[str]) -> list[str]:
        """Remove content that no run refers to any more; what was removed, or was not there.

        What was stored within `REMOVE_AFTER` seconds stays: `old` finds it later.
        """
        return [digest for digest in digests if self._remove(_key(digest))]

    def _remove(self, key: str) -> bool:
        info = self._objects.info(key)
        if info is not None and time.time() - info.modified < REMOVE_AFTER:
            return False
        self._objects.remove(key)
        return True

    def old(self) -> Iterator[str]:
        """Every content that `remove` would remove: ask the record which of it no run refers to, after `check`."""
        for prefix in (f"{number:02x}" for number in range(256)):
            for name, info in self._objects.listing(prefix):
                if re.fullmatch("[0-9a-f]{62}", name) and time.time() - info.modified >= REMOVE_AFTER:
                    yield prefix + name

    def _place(self, part: Part) -> None:
        key = _key(part.sha256)
        info = self._objects.info(key)
        if info is None or info.size != part.size or time.time() - info.modified > RENEW_AFTER:
            part.finish()
            self._objects.put(part.path, key)


def check_artifact_name(name: str) -> None:
    """Names come from sandboxes: only a plain relative path passes, one that every file system takes."""
    parts = name.split("/")
    bad = any(part in ("", ".", "..") or len(part.encode(errors="replace")) > 255 for part in parts)
    if bad or not name.isprintable() or "\\" in name or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise BadInput(f"{name!r} cannot be the name of an artifact: it must be a plain relative path of printable characters")


async def one_piece(content: bytes) -> AsyncIterator[bytes]:
    """Content that is at hand, as `keep` takes it."""
    yield content


def _key(sha256: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise BadInput(f"{sha256!r} is not the SHA-256 of an artifact")
    return f"{sha256[:2]}/{sha256[2:]}"
