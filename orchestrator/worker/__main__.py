"""`python -m orchestrator.worker [--concurrency N] [--idle-exit SECONDS]`, which `fanfold worker` starts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from orchestrator.errors import FanfoldError
from orchestrator.queue import QUEUE, queue_names
from orchestrator.settings import load_settings
from orchestrator.telemetry.process import observed


def main(arguments: Sequence[str] | None = None) -> int:
    """Work until told to stop. The exit code is 0 then, or that of the error that made it impossible."""
    parser = argparse.ArgumentParser(prog="fanfold worker", description="Take runs from the queue and execute them.")
    parser.add_argument("--concurrency", type=int, metavar="N", help="runs at once (default: FANFOLD_WORKER_CONCURRENCY, or 4)")
    parser.add_argument("--idle-exit", type=float, metavar="SECONDS", help="leave when idle for so long (default: stay)")
    parser.add_argument("--queues", metavar="NAMES", default=QUEUE, help="queues to take runs from: a,b (default: fanfold)")
    asked = parser.parse_args(arguments)
    if asked.concurrency is not None and asked.concurrency < 1:
        parser.error("--concurrency must be at least 1")
    try:
        settings, queues = load_settings(), queue_names(asked.queues)
        from orchestrator.worker.process import WorkerProcess  # it imports Celery

        concurrency = asked.concurrency or settings.worker_concurrency
        with observed(settings, "worker") as telemetry:
            WorkerProcess(
                settings, concurrency=concurrency, idle_exit=asked.idle_exit, queues=queues, telemetry=telemetry
            ).run()
    except FanfoldError as exc:
        sys.stderr.write(f"fanfold: error: {exc}\n")
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
