"""Limits that hold for a sandbox as a whole, where this process may write control groups (version 1 or 2)."""

from __future__ import annotations

import contextlib
import os
import time
from functools import cache
from pathlib import Path

from sandboxes.providers.base import Resources

CONTROLLERS = ("memory", "pids", "cpu")
_PERIOD = 100_000
"""Microseconds of a CPU accounting period."""
_REMOVE_SECONDS = 5.0


@cache
def roots() -> dict[str, Path]:
    """Where each controller's groups can be made; empty when they cannot. Version 2 has one place for all."""
    found: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        place, kind, options = Path(before.split()[4]), after.split()[0], after.split()[2].split(",")
        for controller in CONTROLLERS:
            version_1 = kind == "cgroup" and controller in options
            version_2 = kind == "cgroup2" and controller in _enabled(place)
            if (version_1 or version_2) and os.access(place, os.W_OK):
                found[controller] = place / "fanfold"
    return found


def _enabled(place: Path) -> list[str]:
    try:
        return (place / "cgroup.subtree_control").read_text().split()
    except OSError:
        return []


def usable() -> bool:
    """Whether all limits can be set for a sandbox as a whole."""
    return set(roots()) == set(CONTROLLERS)


def create(name: str, resources: Resources) -> None:
    """Make the groups of a sandbox and set its limits. Raises `OSError`."""
    for controller, root in roots().items():
        group = root / name
        group.mkdir(parents=True, exist_ok=True)
        if (root.parent / "cgroup.subtree_control").exists():
            (root / "cgroup.subtree_control").write_text("+memory +pids +cpu")
        for file, value in _settings(controller, resources, group):
            (group / file).write_text(value)


def _settings(controller: str, resources: Resources, group: Path) -> list[tuple[str, str]]:
    second = (group / "cgroup.controllers").exists()
    if controller == "pids" and resources.pids is not None:
        return [("pids.max", str(resources.pids))]
    if controller == "memory" and resources.memory is not None:
        limit = str(resources.memory)
        if second:
            return [("memory.max", limit), ("memory.swap.max", "0")]
        swap = [("memory.memsw.limit_in_bytes", limit)] if (group / "memory.memsw.limit_in_bytes").exists() else []
        return [("memory.limit_in_bytes", limit), *swap]
    if controller == "cpu" and resources.cpu is not None:
        quota = str(int(resources.cpu * _PERIOD))
        if second:
            return [("cpu.max", f"{quota} {_PERIOD}")]
        return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", quota)]
    return []


def join(name: str, pid: int) -> None:
    """Put a process, and all it will start, into the groups of a sandbox. Raises `OSError`."""
    for root in set(roots().values()):
        (root / name / "cgroup.procs").write_text(str(pid))


def remove(name: str) -> None:
    """Remove the groups of a sandbox whose processes are dead or dying. What is not there is no error."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    for root in set(roots().values()):
        while (root / name).exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                (root / name).rmdir()
                break
            time.sleep(0.005)
