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
    scaling,
    swerex,
    toolbox,
)
from benchmarks.measure import run

if __name__ == "__main__":
    of_sandboxes = (changes, clouds, fanout, filesystem, fork, harness, local, merge, swerex, toolbox)
    of_runs = (dispatch, operation, runs, runs_load, scaling)
    run({title: bench for script in (*of_sandboxes, *of_runs) for title, bench in script.BENCH.items()})
