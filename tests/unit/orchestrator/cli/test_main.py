"""What costs nothing must cost nothing."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib.metadata import version

MAX_CPU = 0.15
"""Seconds for `fanfold --version`."""


def _cpu(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_the_version_is_told_at_once() -> None:
    command = [sys.executable, "-m", "orchestrator.cli.main", "--version"]

    assert subprocess.run(command, capture_output=True, text=True).stdout == f"fanfold {version('fanfold')}\n"
    assert min(_cpu(command) for _ in range(5)) < MAX_CPU
