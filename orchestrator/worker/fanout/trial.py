"""A copy of the workspace in which edits are tried before they are made: files are made anew in it, and a check is run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from orchestrator.worker.fanout.base import BaseChanged
from orchestrator.worker.fanout.source import Source
from orchestrator.worker.lodging import Lodging
from sandboxes.sandbox import Edit, Sandbox
from sandboxes.workspace.merge import Contents
from sandboxes.workspace.names import shown


class Trials:
    """Makes copies of a run's sandbox, which stands still as long as one is there."""

    def __init__(self, lodging: Lodging, source: Source) -> None:
        self._lodging = lodging
        self._source = source

    @asynccontextmanager
    async def of(self, edits: Sequence[Edit], contents: Contents) -> AsyncIterator[Sandbox]:
        """A copy with these edits, as long as the context lasts. Raises `BaseChanged` when they do not fit any more."""
        provider = self._lodging.provider
        handle = await self._source.create(await self._lodging.spec(), await self._lodging.labels())
        try:
            async with await provider.attach(handle) as sandbox:
                await apply_all(sandbox, edits, contents, call_id="trial")
                yield sandbox
        finally:
            await provider.destroy(handle)
            await self._source.go_on()


async def apply_all(sandbox: Sandbox, edits: Sequence[Edit], contents: Contents, *, call_id: str) -> None:
    """Make these edits in a sandbox, all or none of them. Raises `BaseChanged` when something else is there than was."""
    if not edits:
        return
    applied = await sandbox.apply(sandbox.workdir, edits, contents.get, call_id=call_id)
    if applied.refused:
        named = ", ".join(shown(path) for path in applied.refused[:5])
        more = f" and {len(applied.refused) - 5} more" if len(applied.refused) > 5 else ""
        raise BaseChanged(f"{named}{more}")
