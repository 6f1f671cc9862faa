"""Processes of this machine that we did not start ourselves, told apart by pid and start time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

KILL_SECONDS = 10.0
"""How long a killed process may take to vanish."""


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when there is none, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@dataclass(frozen=True)
class Process:
    """A process that may belong to another one of ours; a reused pid is never mistaken for it."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has this pid now."""
        started = start_time(pid)
        return None if started is None else cls(pid, started)

    def alive(self) -> bool:
        """Whether it still runs."""
        return start_time(self.pid) == self.started

    def kill(self) -> bool:
        """SIGKILL it and wait until it is gone; whether it is."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return not self.alive()
        try:
            # The descriptor holds on to one process: checked now, it cannot become another's.
            if self.alive():
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                select.select([descriptor], [], [], KILL_SECONDS)
        finally:
            os.close(descriptor)
        return not self.alive()
