"""`python -m tests.wire.daytona [--port N] [--class linux-vm]`: serve until interrupted; prints what to export."""

from __future__ import annotations

import argparse
import signal
import threading

from tests.wire.daytona.server import WireServer


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.wire.daytona", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--class", dest="kind", choices=["container", "linux-vm"], default="container")
    arguments = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with WireServer(port=arguments.port, sandbox_class=arguments.kind) as server:
        for name, value in server.variables.items():
            print(f"export {name}={value}", flush=True)
        over.wait()


main()
