"""`python -m benchmarks [--quick] [--json FILE]`: all of them, one after the other."""

from __future__ import annotations

from benchmarks import (
    changes,
    clouds,
    dispatch,
    fanout,
    filesystem,
    fork,
    harness,
    local,
    merge,
    operation,
    runs,
    runs_load,
    swerex,
    toolbox,
)
from benchmarks.measure import run

if __name__ == "__main__":
    scripts = (
        changes, clouds, dispatch, fanout, filesystem, fork, harness, local, merge, operation, runs, runs_load, swerex, toolbox,
    )  # fmt: skip
    run({title: bench for script in scripts for title, bench in script.BENCH.items()})
