"""Folders for what is only needed for a while."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from orchestrator.runs.files import RunFolder
from orchestrator.runs.models import Lease


@asynccontextmanager
async def scratch(folder: RunFolder, lease: Lease, name: str) -> AsyncIterator[Path]:
    """A folder of this name for one claim of a run. What those who had the run before left of theirs is removed.

    One of them may be at work still, without knowing that it has lost the run: it must not remove ours.
    """
    place = folder.path / f"{name}-{lease.token}"

    def make() -> None:
        for left in folder.path.glob(f"{name}-*"):
            token = left.name.removeprefix(f"{name}-")
            if token.isdecimal() and int(token) <= lease.token:
                shutil.rmtree(left, ignore_errors=True)
        place.mkdir(parents=True)  # the inputs may be kept elsewhere, or there are none

    try:
        await asyncio.to_thread(make)
        yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
