"""Destroying sandboxes that have lost their run.

A sandbox carries its owner in its labels, so that it is found also when whoever made it died before it could note it down.
Each process reaps what it can reach: only the machine that has a local sandbox can end it. Two that end the same sandbox do
no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from orchestrator.runs.controlling import ControlRecord
from orchestrator.runs.keeping import is_orphan
from orchestrator.runs.labels import INSTALLATION_LABEL, RUN_LABEL
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
SWEEP_EVERY = 600.0
"""Seconds between two times that a provider removes what is no sandbox and nobody needs."""
SWEEP_TIMEOUT = 120.0
"""Seconds for that."""
AT_ONCE = 8
"""Sandboxes that are ended at the same time."""


class Reaper:
    """Reaps one provider, once each time it is called."""

    def __init__(
        self,
        record: ControlRecord,
        open_provider: Callable[[], SandboxProvider],
        reaped: Callable[[str], None] = lambda _provider: None,
    ) -> None:
        """`reaped` is told the provider of each sandbox that was destroyed."""
        self._record = record
        self._reaped = reaped
        self._open_provider = open_provider
        self._sweep_at = 0.0

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
            endings = [self._destroy(provider, orphan, gate) for orphan in orphans]
            results = await asyncio.gather(*endings, self._sweep(provider), return_exceptions=True)
        finally:
            await provider.aclose()
        for failure in [result for result in results if isinstance(result, BaseException)][-1:]:
            raise failure

    async def _destroy(self, provider: SandboxProvider, handle: SandboxHandle, gate: asyncio.Semaphore) -> None:
        async with gate, asyncio.timeout(DESTROY_TIMEOUT):
            await provider.destroy(handle)
        self._reaped(provider.name)
        logger.warning("%s of %s had lost its run: destroyed", handle.id, handle.labels.get(RUN_LABEL))

    async def _sweep(self, provider: SandboxProvider) -> None:
        if time.monotonic() >= self._sweep_at:
            async with asyncio.timeout(SWEEP_TIMEOUT):
                await provider.sweep()
            self._sweep_at = time.monotonic() + SWEEP_EVERY

    def _orphans(self, installation: str, found: Sequence[SandboxHandle]) -> list[SandboxHandle]:
        owners = self._record.owners({handle.labels.get(RUN_LABEL, "") for handle in found})
        kept = self._record.kept([handle.id for handle in found])
        return [
            handle
            for handle in found
            if is_orphan(handle, installation, owners.get(handle.labels.get(RUN_LABEL, "")), kept=handle.id in kept)
        ]
