"""A home of its own with a real worker and a real broker; both are gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from orchestrator.broker import Broker
from orchestrator.service import Service
from orchestrator.settings import Settings, load_settings

DEADLINE = 30.0
"""Seconds for anything here to come true."""
WORKER = ("-m", "orchestrator.worker")
"""A worker, as arguments of Python."""

Start = Callable[..., subprocess.Popen[bytes]]


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for `condition`; fail when it does not come true."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE:.0f} s in vain until {what}"
        time.sleep(0.02)


def running(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def processes(marker: str) -> int:
    """How many processes of this machine were started with these words, whatever namespace they are in."""
    found = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found += f"sleep\0{marker}".encode() in (folder / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def stop_workers(service: Service) -> None:
    """Stop the workers of this home, and the broker with the last of them."""
    for worker in service.workers():
        with suppress(ProcessLookupError):  # a test has killed it
            os.kill(worker.pid, signal.SIGTERM)
        wait_until(lambda pid=worker.pid: not running(pid), f"worker {worker.pid} has ended")


@contextmanager
def working(service: Service) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process that is ready, ended in the end."""
    process = subprocess.Popen([sys.executable, *WORKER])
    try:
        wait_until(lambda: process.pid in {one.pid for one in service.workers()}, "the worker is there")
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def fresh_home(**variables: str) -> Iterator[Settings]:
    """Settings of a fresh home; short, because a socket's path must be."""
    home = Path(tempfile.mkdtemp(prefix="ff-"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("FANFOLD_")]:
            patch.delenv(name)
        for name, value in {"HOME": str(home), "WORKER_IDLE_EXIT": "120", **variables}.items():
            patch.setenv(f"FANFOLD_{name}", value)
        loaded = load_settings()
        try:
            yield loaded
        finally:
            with Service(loaded) as service:
                stop_workers(service)
            Broker(loaded).stop()
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    """A home for all tests of a module."""
    with fresh_home() as made:
        yield made


@pytest.fixture(scope="session")
def new_home() -> Callable[..., AbstractContextManager[Settings]]:
    """For a test that needs a home of its own."""
    return fresh_home


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object], str], None]:
    """`wait_until`."""
    return wait_until


@pytest.fixture(scope="session")
def is_running() -> Callable[[int], bool]:
    """`running`."""
    return running


@pytest.fixture(scope="module")
def service(settings: Settings) -> Iterator[Service]:
    with Service(settings) as opened:
        yield opened


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process of this installation; all are ended afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, *arguments]))
        return started[-1]

    yield begin
    for process in started:
        process.terminate()
    for process in started:
        process.wait(30)
