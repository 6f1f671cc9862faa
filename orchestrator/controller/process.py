"""A controller as a process of its own, beside the workers."""

from __future__ import annotations

import faulthandler
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

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

END_SECONDS = 25.0
"""After which a controller that was told to stop, and has not, tells what it waits for and ends with exit code 1.

Kubernetes ends it without a word after 30.
"""


def run_controller(settings: Settings, telemetry: Telemetry, submit: Submit) -> None:
    """Be a controller until SIGTERM or SIGINT; `submit` is for schedules. Raises `FanfoldError` when there is no record."""
    with _signals() as told_to_stop:
        broker = Broker(settings)
        engine = open_database(settings.database, settings.home / "database.lock")
        policy = load_policy(settings.policy)
        telemetry.metrics.add(RecordCollector(lambda: engine, lambda: policy))
        app = make_app(broker.url)
        name = f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(3)}"
        controller = Controller(
            engine,
            app,
            name=name,
            home=settings.home,
            policy=policy,
            ensure_broker=broker.ensure,
            metrics=telemetry.metrics,
            errands=Errands(settings, submit),
        )
        controller.start()
        try:
            told_to_stop.recv(1)
        finally:
            faulthandler.dump_traceback_later(END_SECONDS, exit=True)
            controller.stop()
            broker.stop(unless=lambda: bool(Reader(engine).workers()))
            app.close()
            engine.dispose()


@contextmanager
def _signals() -> Iterator[socket.socket]:
    """Where a byte can be read for each SIGTERM and SIGINT, whichever thread of the process was given it.

    An `Event` would not do: when the signal comes while the main thread enters or leaves `wait`, `set` waits in that same
    thread for a lock that the thread holds.
    """
    told, tells = socket.socketpair()
    with told, tells:
        tells.setblocking(False)
        signal.set_wakeup_fd(tells.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        try:
            yield told
        finally:
            signal.set_wakeup_fd(-1)
