"""A controller as a process of its own, beside the workers."""

from __future__ import annotations

import faulthandler
import os
import secrets
import signal
import socket
import threading

from orchestrator.broker import Broker
from orchestrator.controller.control import Controller
from orchestrator.controller.errands import Errands
from orchestrator.controller.schedule import Submit
from orchestrator.policy import load_policy
from orchestrator.queue import make_app
from orchestrator.runs.reading import Reader
from orchestrator.runs.schema import open_database
from orchestrator.settings import Settings
from orchestrator.telemetry.collector import RecordCollector
from orchestrator.telemetry.process import Telemetry

LOOK_EVERY = 1.0
"""Seconds between two looks whether it is told to stop."""
END_SECONDS = 20.0
"""After which a controller that was told to stop ends, whatever a platform has not answered yet: another one goes on."""


def run_controller(settings: Settings, telemetry: Telemetry, submit: Submit) -> None:
    """Be a controller until SIGTERM or SIGINT; `submit` is for schedules. Raises `FanfoldError` when there is no record."""
    leaving = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leaving.set())
    broker = Broker(settings)
    engine = open_database(settings.database, settings.home / "database.lock")
    telemetry.metrics.add(RecordCollector(lambda: engine))
    app = make_app(broker.url)
    name = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(3)}"
    controller = Controller(
        engine,
        app,
        name=name,
        home=settings.home,
        policy=load_policy(settings.policy),
        ensure_broker=broker.ensure,
        metrics=telemetry.metrics,
        errands=Errands(settings, submit),
    )
    controller.start()
    try:
        while not leaving.wait(LOOK_EVERY):  # a signal that another thread was given is heard at the next look
            pass
    finally:
        _end_surely()
        controller.stop()
        broker.stop(unless=lambda: bool(Reader(engine).workers()))
        app.close()
        engine.dispose()


def _end_surely() -> None:
    """End this process if it takes too long by itself, and tell what it waited for."""

    def end() -> None:
        faulthandler.dump_traceback()
        os._exit(0)

    late = threading.Timer(END_SECONDS, end)
    late.daemon = True
    late.start()
