"""Files that runs are made with."""

from __future__ import annotations

from pathlib import Path

from orchestrator.client.caller import Caller, at
from orchestrator.client.driving import Blocking, blocking
from orchestrator.client.models import Upload
from orchestrator.client.transport import Ask

UPLOAD_PATIENCE = 300.0
"""Seconds for a server to take the next piece of a file, and to answer after the last one."""


class AsyncUploads:
    """Uploads of the key's tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, content: bytes | Path) -> Upload:
        """Send bytes, or a file, which is streamed. Name its id when you create a run; unused, it goes after a while."""
        headers = {"Content-Type": "application/octet-stream"}
        ask = Ask("POST", at("uploads"), headers=headers, content=content, repeatable=True, patience=UPLOAD_PATIENCE)
        return self._caller.parsed(Upload, await self._caller.ask(ask))


class Uploads(Blocking[AsyncUploads]):
    """See `AsyncUploads`."""

    create = blocking(AsyncUploads.create)
