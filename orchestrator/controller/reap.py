"""Destroying sandboxes that have lost their run.

A sandbox carries its owner in its labels, so that it is found also when whoever made it died before it could note it down.
Each process reaps what it can reach: only the machine that has a local sandbox can end it. Two that end the same sandbox do
no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from orchestrator.runs.controlling import ControlRecord, Owner
from orchestrator.runs.labels import ATTEMPT_LABEL, INSTALLATION_LABEL, RUN_LABEL
from sandboxes.providers.base import SandboxHandle, SandboxProvider

logger = logging.getLogger(__name__)

REAP_EVERY = 15.0
"""Seconds between two looks at a provider."""
REAP_SLOWEST = 40.0
"""Seconds between two tries, at most, while a provider cannot be reached."""
REAP_DELAY = 5.0
"""Seconds before the first look: who has just started has better things to do."""
FIND_TIMEOUT = 30.0
"""Seconds for a provider to tell its sandboxes."""
DESTROY_TIMEOUT = 60.0
"""Seconds for it to end one of them."""
AT_ONCE = 8
"""Sandboxes that are ended at the same time."""


class Reaper:
    """Reaps one provider, once each time it is called."""

    def __init__(self, record: ControlRecord, open_provider: Callable[[], SandboxProvider]) -> None:
        self._record = record
        self._open_provider = open_provider

    def look(self) -> None:
        """`round`, on an event loop of its own."""
        asyncio.run(self.round())

    async def round(self) -> None:
        """Destroy the orphans that there are. Raises the last thing that went wrong, when all has been tried."""
        installation = await asyncio.to_thread(self._record.installation)
        provider = self._open_provider()
        try:
            async with asyncio.timeout(FIND_TIMEOUT):
                found = await provider.find({INSTALLATION_LABEL: installation})
            # The record is read after the provider: whatever has been found by now had its run in the record before.
            orphans = await asyncio.to_thread(self._orphans, installation, found)
            gate = asyncio.Semaphore(AT_ONCE)
            results = await asyncio.gather(*(_destroy(provider, orphan, gate) for orphan in orphans), return_exceptions=True)
        finally:
            await provider.aclose()
        for failure in [result for result in results if isinstance(result, BaseException)][-1:]:
            raise failure

    def _orphans(self, installation: str, found: Sequence[SandboxHandle]) -> list[SandboxHandle]:
        owners = self._record.owners({handle.labels.get(RUN_LABEL, "") for handle in found})
        return [handle for handle in found if is_orphan(handle, installation, owners.get(handle.labels.get(RUN_LABEL, "")))]


def is_orphan(handle: SandboxHandle, installation: str, owner: Owner | None) -> bool:
    """Whether nobody will ever use this sandbox of ours again. `owner` is its run, None when the record has none.

    It is one when its run has ended or is gone, or when a later attempt has taken its place; but never while the record counts
    it as the sandbox of a run that goes on. What does not name our installation, or no run at all, is not ours to judge.
    """
    if handle.labels.get(INSTALLATION_LABEL) != installation or not handle.labels.get(RUN_LABEL):
        return False
    if owner is None or owner.ended:
        return True
    attempt = handle.labels.get(ATTEMPT_LABEL, "")
    superseded = attempt.isascii() and attempt.isdigit() and int(attempt) < owner.attempt
    return superseded and owner.sandbox_id != handle.id


async def _destroy(provider: SandboxProvider, handle: SandboxHandle, gate: asyncio.Semaphore) -> None:
    async with gate, asyncio.timeout(DESTROY_TIMEOUT):
        await provider.destroy(handle)
    logger.warning("%s of %s had lost its run: destroyed", handle.id, handle.labels.get(RUN_LABEL))
