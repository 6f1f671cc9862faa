"""A controller as a process of its own, beside the workers."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading

from orchestrator.broker import Broker
from orchestrator.controller.control import Controller
from orchestrator.queue import make_app
from orchestrator.runs.reading import Reader
from orchestrator.runs.schema import open_database
from orchestrator.settings import Settings


def run_controller(settings: Settings) -> None:
    """Be a controller until SIGTERM or SIGINT. Raises `FanfoldError` when there is no record."""
    leaving = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leaving.set())
    broker = Broker(settings)
    engine = open_database(settings.database, settings.home / "database.lock")
    app = make_app(broker.url)
    name = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(3)}"
    controller = Controller(engine, app, name=name, home=settings.home, ensure_broker=broker.ensure)
    controller.start()
    try:
        leaving.wait()
    finally:
        controller.stop()
        broker.stop(unless=lambda: bool(Reader(engine).workers()))
        app.close()
        engine.dispose()
