"""`python -m benchmarks [--quick] [--json FILE]`: all of them, one after the other."""

from __future__ import annotations

from benchmarks import dispatch, filesystem, harness, local, swerex, toolbox
from benchmarks.measure import run

if __name__ == "__main__":
    run({**dispatch.BENCH, **filesystem.BENCH, **harness.BENCH, **local.BENCH, **swerex.BENCH, **toolbox.BENCH})
