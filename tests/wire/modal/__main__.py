"""`python -m tests.wire.modal`: a server by hand. It prints what to export, and serves until it is interrupted."""

from __future__ import annotations

import signal
import threading

from tests.wire.modal.server import serving


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with serving() as server:
        for name, value in {**server.environment, "FANFOLD_MODAL_IMAGE": "fanfold-test/base:latest"}.items():
            print(f"export {name}={value}")
        print("# Ctrl-C ends it, and every sandbox of it.", flush=True)
        over.wait()


if __name__ == "__main__":
    main()
