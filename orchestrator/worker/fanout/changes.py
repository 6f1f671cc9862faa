"""What a child changed of the workspace that it was forked from, kept with its run: its sandbox is not needed for the merge."""

from __future__ import annotations

import asyncio

from orchestrator.errors import TaskFailed
from orchestrator.runs.family import CHANGES, Family
from orchestrator.worker.assignment import Assignment
from orchestrator.worker.fanout.commits import packed_commits
from orchestrator.worker.scratch import scratch
from sandboxes.errors import ArchiveRefused, PatchRefused
from sandboxes.sandbox import Sandbox
from sandboxes.workspace.fetching import Files
from sandboxes.workspace.pack import pack

CAP = 2 * 1024**3
"""Bytes of all that one child changed."""


async def keep_changes(work: Assignment, sandbox: Sandbox) -> None:
    """Keep what a child has changed, without litter, and what it has committed.

    Raises `TaskFailed` when that is too much, or what cannot be merged.
    """
    assert work.origin is not None
    base, family = work.origin.base, Family(work.store.engine)

    try:
        changed = await sandbox.changes(sandbox.workdir, base.entries, exclude=base.exclude, folders=True)
        async with scratch(work.folder, work.lease, "changes") as place:
            entries = await asyncio.to_thread(base.without_litter, changed.entries, place / "rules")
            if entries or changed.removed:
                await pack(entries, changed.removed, Files(sandbox, sandbox.workdir), place / "packed", base=base.id, cap=CAP)
                kept = await asyncio.to_thread(work.artifacts.keep_file, work.run.id, CHANGES, place / "packed")
                await asyncio.to_thread(family.note_work, work.lease, kept)
        if base.commits and (packed := await packed_commits(sandbox, base.commits, work.artifacts, work.run.id)):
            await asyncio.to_thread(family.note_work, work.lease, packed)
    except (PatchRefused, ArchiveRefused) as exc:
        raise TaskFailed(f"what was changed cannot be merged: {exc}") from exc
