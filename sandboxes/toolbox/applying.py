"""Edits through the helper: their contents are sent one after the other, and one call that is journaled does the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sandboxes.errors import ProtocolError
from sandboxes.toolbox import transfer
from sandboxes.toolbox.client import ToolboxClient
from sandboxes.toolbox.helper import wire
from sandboxes.workspace.changes import REFUSED_CAP, Applied, Edit
from sandboxes.workspace.manifest import FOLDER

if TYPE_CHECKING:
    from sandboxes.workspace.changes import Side


async def apply(
    client: ToolboxClient, root: str, edits: Sequence[Edit], contents: Callable[[str], bytes], key: str
) -> Applied:
    """See `Sandbox.apply`; the edits are checked and sorted. Raises `Refusal`."""
    blobs: list[tuple[str, int]] = []

    async def pieces() -> AsyncIterator[bytes]:
        wanted = iter(new_blobs(edits))
        while piece := await asyncio.to_thread(_next_piece, wanted, contents, blobs):
            yield piece

    token = await transfer.send(client, None, pieces(), mode=None)
    described = [(edit.path, state(edit.before), state(edit.after)) for edit in edits]
    key = f"{key}:apply"  # a command may have the same
    reply = await client.call("apply", path=root, token=token, blobs=blobs, edits=described, key=key, deadline=None)
    return applied(reply.get("refused", list), edits)


def _next_piece(wanted: Iterator[str], contents: Callable[[str], bytes], blobs: list[tuple[str, int]]) -> bytes:
    """The next contents together, of about the size of a piece; nothing at their end. Notes which they are in `blobs`."""
    piece = bytearray()
    for blob in wanted:
        content = contents(blob)
        blobs.append((blob, len(content)))
        piece += content
        if len(piece) >= wire.PIECE:
            break
    return bytes(piece)


def applied(refused: Collection[object], edits: Sequence[Edit]) -> Applied:
    """The answer of a sandbox, which can only refuse what was asked of it. Raises `ProtocolError`."""
    asked = {edit.path for edit in edits}
    named = [path for path in refused if isinstance(path, str) and path in asked]
    if len(named) != len(refused) or len(named) > REFUSED_CAP:
        raise ProtocolError("the sandbox refuses edits that were not asked of it")
    return Applied(tuple(named))


def new_blobs(edits: Iterable[Edit]) -> list[str]:
    """Ids of the contents that edits bring, each once."""
    return list(dict.fromkeys(edit.after.blob for edit in edits if edit.after is not None and edit.after.mode != FOLDER))


def state(side: Side) -> str | None:
    """What is on one side of an edit, as the sandbox is told."""
    return None if side is None else f"{side.mode} {side.blob}"
