"""The servers below: a real PostgreSQL and a real Redis, which can be killed, paused and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.conftest import missing
from tests.services import DEADLINE, PostgresServer

POLL = 0.05


class Postgres(PostgresServer):
    """`PostgresServer` with rough handling. Its methods may be called from several threads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket = folder / ".s.PGSQL.5432"
        """Where it listens."""
        self._lock = threading.RLock()

    def up(self) -> None:
        """Start it when it is not there. One that was killed leaves its children behind for a moment."""
        with self._lock:
            deadline = time.monotonic() + DEADLINE
            while self._server is None:
                try:
                    self.start()
                except AssertionError:
                    self._server = None
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(POLL)

    def kill(self) -> None:
        """SIGKILL, to all of its processes at once."""
        with self._lock:
            if self._server is not None:
                self.signal(signal.SIGKILL)
                self._server.wait(DEADLINE)
                self._server = None

    def kill_connection(self) -> None:
        """SIGKILL to the process of one connection: the server then ends all others, and recovers."""
        with self._lock:
            for pid in self._connections()[:1]:
                _send(pid, signal.SIGKILL)

    def restart(self) -> None:
        """Stop it as an operator does, and start it again."""
        with self._lock:
            if self._server is not None:
                self.signal(signal.SIGCONT)
            self.stop()
            self.up()

    def signal(self, number: signal.Signals) -> None:
        """Send it to all of its processes, the first one first."""
        with self._lock:
            if self._server is not None:
                for pid in [self._server.pid, *_children(self._server.pid)]:
                    _send(pid, number)

    def _connections(self) -> list[int]:
        if self._server is None:
            return []
        return [pid for pid in _children(self._server.pid) if b"fanfold" in _command_line(pid)]


class Redis:
    """A `redis-server` on a port of this machine; one that keeps its data on disk, or forgets everything when it ends."""

    def __init__(self, folder: Path, *, persistent: bool) -> None:
        if (program := shutil.which("redis-server")) is None:
            missing("There is no redis-server.")
        self._program = str(program)
        self._folder = folder
        self._persistent = persistent
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
            """Where it listens."""

    def up(self) -> None:
        """Start it when it is not there, and wait until it answers."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
            options += ["--appendonly", "yes" if self._persistent else "no", "--appendfsync", "always"]
            with (self._folder / "redis.log").open("ab") as log:
                self._process = subprocess.Popen([self._program, *options], stdout=log, stderr=log)
            deadline = time.monotonic() + DEADLINE
            while self.ask(b"PING") != b"+PONG\r\n":
                assert time.monotonic() < deadline, f"Redis did not come up: {self._folder / 'redis.log'}"
                time.sleep(POLL)

    def kill(self) -> None:
        """SIGKILL."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait(DEADLINE)

    def forget(self) -> None:
        """Lose everything, and go on."""
        self.ask(b"FLUSHALL")

    def signal(self, number: signal.Signals) -> None:
        """Send it."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(number)

    def ask(self, command: bytes) -> bytes:
        """What it answers to one command; nothing when it is not there."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
            connection.sendall(command + b"\r\n")
            return connection.recv(128)
        return b""


def _children(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(status.parent.name))
    return found


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
