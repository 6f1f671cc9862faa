"""The view of `fanfold exec`: the command's stdout on stdout, its stderr on stderr, byte for byte, and nothing else.

Into a file or a pipe goes the very output. A terminal gets text, newlines, tabs and colours: other sequences of a program
that nobody trusts could rename windows, answer in the person's place, or hide what was printed.
"""

from __future__ import annotations

import base64
import binascii
import io
import shutil
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO

from orchestrator.eventdata import Data
from orchestrator.text import TerminalFilter, clean

if TYPE_CHECKING:
    from orchestrator.runs.models import Event

PIECE = 64 * 1024
"""Characters of a log that are read at once."""


class PassThrough:
    """Hands a command's output on to `stdout` and `stderr`, this process's own unless others are given."""

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self._stderr = stderr or sys.stderr
        self._outlets = {"stdout": _Outlet(stdout or sys.stdout), "stderr": _Outlet(self._stderr)}

    def __enter__(self) -> PassThrough:
        return self

    def __exit__(self, *exc: object) -> None:
        for outlet in self._outlets.values():
            outlet.finish()

    def event(self, event: Event) -> None:
        """See `View`."""
        data = Data(event.data)
        if event.type == "command.output":
            self._outlets["stderr" if data.text("stream") == "stderr" else "stdout"].write(data)
        elif event.type == "log" and data.text("level") in ("warning", "error"):
            self.say(data.text("text"))

    def output(self, stream: str, text: str) -> None:
        """Hand on what was printed to `stdout` or `stderr`."""
        self._outlets[stream].write(Data({"text": text}))

    def rest(self, log: BinaryIO) -> None:
        """Hand on the output that was too much for events, from its log. In it the two streams are one."""
        self.say("so much output: from here on, stderr is on stdout")
        self._outlets["stdout"].write_all(log)

    def say(self, text: str) -> None:
        """See `View`."""
        self._stderr.write(f"fanfold: {clean(text)}\n")
        self._stderr.flush()


class _Outlet:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._filter = TerminalFilter() if file.isatty() else None

    def write(self, data: Data) -> None:
        if self._filter:
            self._file.write(self._filter.feed(data.text("text")))
            self._file.flush()
        else:
            self._file.buffer.write(_bytes(data))
            self._file.buffer.flush()

    def write_all(self, content: BinaryIO) -> None:
        reader = io.TextIOWrapper(content, "utf-8", errors="replace", newline="")
        if self._filter:
            while text := reader.read(PIECE):
                self._file.write(self._filter.feed(text))
            self.finish()
        else:
            shutil.copyfileobj(content, self._file.buffer)
            self._file.buffer.flush()
        reader.detach()

    def finish(self) -> None:
        if self._filter:
            self._file.write(self._filter.finish())
            self._file.flush()


def _bytes(data: Data) -> bytes:
    """What was printed: events carry `base64` beside a text that is not all of it."""
    try:
        exact = base64.b64decode(data.text("base64"), validate=True)
    except (binascii.Error, ValueError):
        exact = b""
    return exact or data.text("text").encode(errors="replace")
