"""One command on this machine: run, capped, watched and killed with all that it started."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import threading
import time
from collections.abc import Mapping
from io import FileIO
from typing import Final, cast

from sandboxes.protocol import ExecuteResponse
from sandboxes.toolbox.helper.processes import ARGUMENT_CAP, COOKIE, kill_tree

TIMED_OUT: Final = 124
CANNOT_START: Final = 126
KILL_SECONDS: Final = 10.0
"""How long a killed command may take to vanish."""
CHUNK: Final = 256 * 1024
PIPE: Final = 1024 * 1024
"""Bytes that a command may print ahead of us."""


class Output:
    """The head and the tail of what comes, of at most `cap` bytes together."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._head = bytearray()
        self._tail = b""
        self.total = 0

    def append(self, data: bytes) -> None:
        """Keep what is part of head or tail."""
        self.total += len(data)
        room = max(0, self._cap - len(self._head))
        self._head += data[:room]
        if rest := data[room:]:
            self._tail = (self._tail + rest)[-self._cap :]

    @property
    def truncated(self) -> bool:
        """Whether more came than is kept."""
        return self.total > self._cap

    def text(self) -> str:
        """All of it, or its head and its tail around a note that says how much is left out."""
        if not self.truncated:
            return self._head.decode("utf-8", "replace")
        half = self._cap // 2
        head, tail = bytes(self._head[:half]), (bytes(self._head[half:]) + self._tail)[-half:] if half else b""
        note = f"\n[... {self.total - len(head) - len(tail)} bytes left out ...]\n"
        return head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")


class HostCommand:
    """A shell command in a session of its own, without input. `run` it once, in a thread; `kill` it from any other."""

    def __init__(self, command: str, *, cwd: str, env: Mapping[str, str], output_cap: int) -> None:
        self._command = command
        self._cwd = cwd
        self._cookie = secrets.token_hex(12)
        self._env = {**env, COOKIE: self._cookie}
        self._output = Output(output_cap)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    def run(self, timeout: float) -> ExecuteResponse:
        """Wait for it, or for `timeout` seconds: then it is killed with all that it started.

        A background process that it leaves behind does not delay the answer. It lives on, and its later output is lost.
        """
        deadline = time.monotonic() + timeout
        try:
            process, pipe = self._start()
        except (OSError, ValueError) as exc:
            return ExecuteResponse(output=self._complaint(exc), exit_code=CANNOT_START)
        try:
            ended = self._watch(process.pid, pipe.fileno(), deadline)
        except BaseException:
            self.kill()
            raise
        if not ended:
            self.kill()
        with self._lock:
            code = process.wait(KILL_SECONDS)
        if self._drain(pipe.fileno()):
            pipe.close()
        else:
            threading.Thread(target=_discard, args=(pipe,), name="fanfold-output", daemon=True).start()
        code = TIMED_OUT if not ended else code if code >= 0 else 128 - code
        return ExecuteResponse(self._output.text(), code, self._output.truncated, timed_out=not ended)

    def kill(self) -> None:
        """End it with all that it started, whatever session that moved to. One that has not begun never will."""
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.returncode is None:
                kill_tree(self._process.pid, self._cookie)

    def _start(self) -> tuple[subprocess.Popen[bytes], FileIO]:
        with self._lock:
            if self._killed:
                raise OSError("it was cancelled")
            script = self._command.encode("utf-8", "surrogateescape")
            self._process = self._long(script) if len(script) > ARGUMENT_CAP else self._popen(["/bin/sh", "-c", "--", script])
        pipe = cast("FileIO", self._process.stdout)
        os.set_blocking(pipe.fileno(), False)
        return self._process, pipe

    def _long(self, script: bytes) -> subprocess.Popen[bytes]:
        """A script that is longer than an argument may be: it is read from a file in memory."""
        memory = os.memfd_create("script")
        with FileIO(memory, "wb") as file:
            file.write(script)
            return self._popen(["/bin/sh", f"/dev/fd/{memory}"], memory)

    def _popen(self, words: list[str | bytes], *inherited: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            cwd=self._cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            pipesize=PIPE,
            start_new_session=True,
            pass_fds=inherited,
        )

    def _complaint(self, exc: OSError | ValueError) -> str:
        if isinstance(exc, UnicodeEncodeError):
            return f"Error: the command cannot be written as UTF-8: {exc.reason}"
        if isinstance(exc, ValueError):
            return "Error: the command has a NUL byte"
        return f"Error: the command cannot be started in '{self._cwd}': {exc.strerror or exc}"

    def _watch(self, pid: int, pipe: int, deadline: float) -> bool:
        """Take what is printed until the command's own process ends; False when the deadline came first."""
        process, ready = os.pidfd_open(pid), select.poll()
        ready.register(process, select.POLLIN)
        ready.register(pipe, select.POLLIN)
        try:
            while (left := deadline - time.monotonic()) > 0:
                found = [descriptor for descriptor, _ in ready.poll(left * 1000)]
                if process in found:
                    return True
                if pipe in found and self._take(pipe) == 0:
                    ready.unregister(pipe)
            return False
        finally:
            os.close(process)

    def _take(self, pipe: int) -> int | None:
        """Bytes taken; 0 at the end of the output, None when nothing is there now."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return None
        self._output.append(data)
        return len(data)

    def _drain(self, pipe: int) -> bool:
        """Take what was printed before the end, but not what a background process goes on printing; whether that was all."""
        passes = 2 * PIPE // CHUNK
        taken: int | None = 1
        while taken and passes:
            taken, passes = self._take(pipe), passes - 1
        return taken == 0


def _discard(pipe: FileIO) -> None:
    """Read what a background process prints, so that it can go on."""
    os.set_blocking(pipe.fileno(), True)
    with pipe:
        while pipe.read(CHUNK):
            pass
