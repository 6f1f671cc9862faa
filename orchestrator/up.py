"""`python -m orchestrator.up`, which `fanfold up` becomes: the API, a controller and a worker in one process.

It needs nothing else: with the default settings the record is SQLite and the broker an embedded Valkey.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrator.api.server import address_of, listen, make_server
from orchestrator.errors import FanfoldError
from orchestrator.service import Service
from orchestrator.settings import Settings, load_settings
from orchestrator.telemetry.process import observed
from orchestrator.worker.process import WorkerProcess

STOP_TIMEOUT = 15.0
"""Seconds that requests have to be answered once the worker has left."""

_log = logging.getLogger("fanfold.up")


def up(settings: Settings, *, host: str, port: int, concurrency: int) -> None:
    """Serve and work until SIGTERM or SIGINT; runs at work are left to the next worker. Raises `FanfoldError`."""
    with (
        Service(settings) as service,
        observed(settings, "up", metrics=service.metrics) as telemetry,
        listen(host, port) as listening,
    ):
        worker = WorkerProcess(settings, concurrency=concurrency, idle_exit=None, telemetry=telemetry)
        key = first_key(service, settings.home)
        with _serving(service, listening):
            _log.info("the API is at %s%s", address_of(listening), f", its key in {key}" if key else "")
            worker.run()


def first_key(service: Service, home: Path) -> Path | None:
    """The file with the first key of an installation that has none, made now or before; None when it was made elsewhere."""
    file = home / "api.key"
    if not service.keys.list():
        text = service.keys.create("first", ("admin",)).text
        file.unlink(missing_ok=True)  # of a record that is gone
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(text)
    return file if file.exists() else None


@contextmanager
def _serving(service: Service, listening: socket.socket) -> Iterator[None]:
    server = make_server(service)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(STOP_TIMEOUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Be up until told to stop. The exit code is 0 then, or that of the error that made it impossible."""
    parser = argparse.ArgumentParser(prog="fanfold up", description="API, controller and worker in one process.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 is any that is free (default: 8000)")
    parser.add_argument("--concurrency", type=int, metavar="N", help="runs at once (default: FANFOLD_WORKER_CONCURRENCY, or 4)")
    asked = parser.parse_args(arguments)
    if asked.concurrency is not None and asked.concurrency < 1:
        parser.error("--concurrency must be at least 1")
    try:
        settings = load_settings()
        up(settings, host=asked.host, port=asked.port, concurrency=asked.concurrency or settings.worker_concurrency)
    except FanfoldError as exc:
        sys.stderr.write(f"fanfold: error: {exc}\n")
        return exc.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
