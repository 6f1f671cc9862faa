"""Uploads: files that are sent to an installation before a run that needs them.

They are in `uploads/<tenant>/<id>` of the installation's home, for a day.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterable
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

from orchestrator.errors import BadInput, InfrastructureError, NotFound
from orchestrator.runs.uploads import Upload, new_upload_id
from orchestrator.runs.uploads import Uploads as UploadRecord
from orchestrator.service.installation import Installation

KEPT = 86400.0
"""Seconds for which an upload can be used."""
AT_ONCE = 200
"""Entries that one transaction deletes."""
_IN_MEMORY = 1024**2
"""Bytes that are gathered before they are written."""


class TooLarge(BadInput):
    """More was sent than `FANFOLD_MAX_UPLOAD`."""


class UploadRoom:
    """The uploads of one tenant."""

    def __init__(self, installation: Installation, tenant: str) -> None:
        self._of = installation
        self._tenant = tenant

    @property
    def folder(self) -> Path:
        """Where they are, each a file with its id as its name."""
        return self._of.settings.uploads_dir / self._tenant

    @cached_property
    def _record(self) -> UploadRecord:
        return UploadRecord(self._of.engine)

    async def keep(self, content: AsyncIterable[bytes]) -> Upload:
        """Store what is sent.

        Raises `BadInput` when it is nothing, `TooLarge`, `InfrastructureError`, and whatever `content` raises; nothing is left
        then.
        """
        upload_id = new_upload_id()
        path = self.folder / upload_id
        try:
            file = await asyncio.to_thread(self._create, path)
            with file:
                size, sha256 = await _write(content, file, self._of.settings.max_upload)
            if not size:
                raise BadInput("the upload is empty: send the file's bytes as the body")
            return await asyncio.to_thread(partial(self._record.add, upload_id, tenant=self._tenant, size=size, sha256=sha256))
        except OSError as exc:
            path.unlink(missing_ok=True)
            raise InfrastructureError(f"the upload cannot be stored: {exc.strerror or exc}") from exc
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _create(self, path: Path) -> BinaryIO:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path.open("xb")

    def get(self, upload_id: str) -> Upload:
        """The upload with this id, whose file is in `folder`. Raises `NotFound`."""
        found = self._record.get(upload_id, tenant=self._tenant)
        if not (self.folder / found.id).is_file():
            raise NotFound(f"upload {upload_id} is not on this machine: send the file again with POST /v1/uploads")
        return found

    def sweep(self) -> None:
        """Remove uploads that are too old, of all tenants, and what uploads that broke off have left."""
        root = self._of.settings.uploads_dir
        old = self._record.old(KEPT)
        for upload in old:
            (root / upload.tenant / upload.id).unlink(missing_ok=True)
        for start in range(0, len(old), AT_ONCE):
            self._record.forget([upload.id for upload in old[start : start + AT_ONCE]])
        before = time.time() - 2 * KEPT
        for path in root.glob("*/upl-*"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)


async def _write(content: AsyncIterable[bytes], file: BinaryIO, limit: int) -> tuple[int, str]:
    """Write all of it; its size and its SHA-256."""
    digest, size, waiting = hashlib.sha256(), 0, bytearray()

    def write(data: bytes) -> None:
        digest.update(data)
        file.write(data)
        file.flush()

    async for piece in content:
        size += len(piece)
        if size > limit:
            raise TooLarge(f"the upload is larger than {limit:,} bytes (FANFOLD_MAX_UPLOAD)")
        waiting += piece
        if len(waiting) >= _IN_MEMORY:
            await asyncio.to_thread(write, bytes(waiting))
            waiting.clear()
    await asyncio.to_thread(write, bytes(waiting))
    return size, digest.hexdigest()
