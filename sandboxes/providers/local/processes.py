"""Processes of this machine that we did not start ourselves, told apart by pid and start time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KILL_SECONDS = 10.0
"""How long a killed process may take to vanish."""
STOP_SECONDS = 10.0
"""How long processes may take to stand still."""
STOP_POLL = 0.005
"""Seconds between two looks whether they do."""
BLOCKED_SECONDS = 0.5
"""After which a process that waits in the kernel, and was told to stop, counts as standing still: it is, as long as the child
that it is starting is (`vfork`), and it executes nothing of its own before it has stopped."""
_STILL = (b"T", b"Z", b"X")


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when there is none, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _state(pid: int) -> tuple[bytes, int] | None:
    """The state and the parent of a process; None when there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def _family(pid: int) -> list[int]:
    """A process and all that descend from it, parents first."""
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    parents = {one: state[1] for one in pids if (state := _state(one))}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


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

    def still(self) -> bool:
        """Whether it was stopped, or has ended."""
        state = _state(self.pid)
        return state is None or state[0] in _STILL

    def stop(self) -> bool:
        """SIGSTOP it and all that descend from it; whether all of them stand still. What they fork meanwhile is stopped too."""
        end = time.monotonic() + STOP_SECONDS
        blocked_since = time.monotonic()
        while self.alive():
            states = {pid: state[0] for pid in _family(self.pid) if (state := _state(pid))}
            going = [pid for pid, state in states.items() if state not in _STILL]
            if any(states[pid] != b"D" for pid in going):
                blocked_since = time.monotonic()
            if not going or time.monotonic() - blocked_since > BLOCKED_SECONDS:
                return True
            if time.monotonic() > end:
                return False
            _signal(going, signal.SIGSTOP)
            time.sleep(STOP_POLL)
        return False

    def go_on(self) -> None:
        """SIGCONT it and all that descend from it."""
        if self.alive():
            _signal(_family(self.pid), signal.SIGCONT)

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


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
