"""Snapshots: images of the platform with all files of a sandbox, and the book in which they are written down.

The platform lists neither images nor what they are of. The book is one of its dicts: the id of a snapshot to its handle as JSON
text. A snapshot is written down before its image is made, so that what was cut off in between is found.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any, Final

import modal
from modal.experimental import image_delete

from sandboxes.errors import SandboxGone, SandboxNotFound
from sandboxes.providers.base import SnapshotHandle
from sandboxes.providers.ids import is_snapshot_id
from sandboxes.providers.modal.platform import Platform

SNAPSHOT_SECONDS: Final = 300.0
"""How long keeping the files of a sandbox may take."""
KEPT_SECONDS: Final = 30 * 86400
"""How long the platform keeps the image of a snapshot."""
_GRACE: Final = 10.0


async def image_of(platform: Platform, sandbox_id: str, *, seconds: int) -> modal.Image:
    """An image with all files of a sandbox as they are now, which the platform keeps for so long. Raises as `attach`."""
    limit = int(SNAPSHOT_SECONDS)

    async def keep(sandbox: modal.Sandbox) -> modal.Image:
        asked = sandbox.snapshot_filesystem.aio(timeout=limit, ttl=seconds)
        return await platform.ask("keep a sandbox's files", asked, SNAPSHOT_SECONDS + _GRACE)

    return await platform.unless_ended(sandbox_id, keep)


class Book:
    """The snapshots of one app."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._opened: modal.Dict | None = None

    async def _dict(self) -> modal.Dict:
        if self._opened is None:
            name = f"{self._platform.app_name}-snapshots"
            self._opened = modal.Dict.from_name(name, create_if_missing=True, client=await self._platform.client())
        return self._opened

    async def write(self, snapshot: SnapshotHandle) -> None:
        """Write it down, or anew."""
        book = await self._dict()
        await self._platform.ask("note a snapshot", book.put.aio(snapshot.id, json.dumps(snapshot.to_json())))

    async def read(self, snapshot_id: str) -> SnapshotHandle:
        """What is written of it. Raises `SandboxNotFound`."""
        told = None
        if is_snapshot_id(snapshot_id):
            book = await self._dict()
            told = _handle(await self._platform.ask("find a snapshot", book.get.aio(snapshot_id)))
        if told is None:
            raise SandboxNotFound(f"there is no Modal snapshot {snapshot_id!r:.80}: it was deleted, or never was")
        return told

    async def all(self) -> list[SnapshotHandle]:
        """All that are written down."""
        book = await self._dict()

        async def values() -> list[Any]:
            return [value async for _, value in book.items.aio()]

        found = await self._platform.ask("list snapshots", values())
        return [handle for value in found if (handle := _handle(value)) is not None]

    async def delete(self, snapshot_id: str) -> None:
        """Remove its image and what is written of it. What is gone is no error."""
        with contextlib.suppress(SandboxNotFound):
            image = (await self.read(snapshot_id)).data.get("image")
            client = await self._platform.client()
            with contextlib.suppress(SandboxNotFound, SandboxGone):
                if image:
                    await self._platform.ask("delete an image", image_delete.aio(str(image), client=client))
            book = await self._dict()
            await self._platform.ask("strike out a snapshot", book.pop.aio(snapshot_id, None))


def _handle(value: object) -> SnapshotHandle | None:
    """A handle from the book; None for anything else that somebody has put there."""
    try:
        told: Mapping[str, Any] = json.loads(value) if isinstance(value, str) else {}
        return SnapshotHandle(**told)
    except (ValueError, TypeError):
        return None
