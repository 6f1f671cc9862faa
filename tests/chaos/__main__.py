"""`python -m tests.chaos --runs 500 --seed N --minutes 10`: the long form of the chaos suite, by hand."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.chaos.trial import Plan, carry_out
from tests.chaos.world import Size


def main() -> int:
    """Carry out one trial after the other. The exit code is 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Kill everything at random; lose nothing.")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=10.0, help="for how long runs are submitted and disturbed")
    parser.add_argument("--seed", type=int, default=None, help="what decides about everything (default: another each time)")
    parser.add_argument("--every", type=float, default=1.5, metavar="SECONDS", help="between two disturbances, on average")
    parser.add_argument("--trials", type=int, default=1, help="how many, each with the next seed")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--forgetful-redis", action="store_true", help="Redis keeps nothing on disk")
    parser.add_argument("--provider", default="local")
    parser.add_argument(
        "--only", action="append", default=[], metavar="KIND", help="disturb only so: 'worker killed', 'postgres', ..."
    )
    parser.add_argument("--logs", type=Path, default=Path(tempfile.gettempdir()) / "fanfold-chaos", help="where logs are left")
    asked = parser.parse_args()
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1_000_000)
    size = Size(workers=asked.workers, apis=2, persistent=not asked.forgetful_redis)
    failed = 0
    for one in range(seed, seed + asked.trials):
        plan = Plan(one, asked.runs, asked.minutes * 60, asked.every, size, asked.provider, tuple(asked.only))
        report = carry_out(plan, logs=asked.logs / str(one))
        print(report, flush=True)
        failed += bool(report.findings.breaches)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
