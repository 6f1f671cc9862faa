"""How long a worker may be silent, and how often a run may lose its worker.

A lease is short, so that a run goes on soon after its worker died, and yet four heartbeats long: a machine that stalls for
less keeps its runs. One that stalls for longer loses them, which costs an attempt and nothing else: its token is stale.
"""

from __future__ import annotations

LEASE_TTL = 4.0
"""Seconds without a heartbeat after which another worker may claim the run."""
MAX_LOST = 5
"""How many workers may die of one run before it is given up."""
STEADY = 60.0
"""Seconds after which a worker that is lost has not died of the run: its losses are counted anew.

So a run of hours outlives any number of workers and of times without the record, and one that kills its workers does not.
"""
BACKOFF = 1.0
"""Seconds that a run waits in addition when it has lost its second worker; twice as long for each one after that."""


def patience(lost: int) -> float:
    """Seconds without a heartbeat after which a run that has lost so many workers before may be claimed again.

    One dead worker says nothing about the run, which therefore waits no longer than its lease. A run that loses every worker
    may be what kills them: it comes back more and more slowly.
    """
    return LEASE_TTL if lost < 1 else LEASE_TTL + BACKOFF * 2 ** (min(lost, MAX_LOST) - 1)
